"""What others would take for sets: networks of torch_geometric's aggregations, and boosted trees on statistics."""
