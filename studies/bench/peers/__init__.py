"""The peers: networks of torch_geometric's aggregations, and boosted trees on statistics."""
