"""The committed pages of studies/experiments/arithmetic are those of the committed numbers."""

import torch

from janossy import Ragged
from studies.experiments.arithmetic import best, text_or_code
from studies.experiments.record import Record
from studies.paper.arithmetic.tasks import TASKS


def test_the_page_of_the_best_is_that_of_its_numbers():
    record = Record(best.FOLDER / "best.json", best.COMMAND)
    assert {cell["task"] for cell in record.cells} == set(best.BEST)
    assert (best.FOLDER / "best.md").read_text(encoding="utf-8") == best.page(record)


def test_the_page_of_text_and_code_is_that_of_its_numbers():
    record = Record(text_or_code.FOLDER / "text_or_code.json", text_or_code.COMMAND)
    assert record.cells
    assert (text_or_code.FOLDER / "text_or_code.md").read_text(encoding="utf-8") == text_or_code.page(record.cells)


def test_the_products_contain_the_variance():
    """Σ over pairs of (a − b)²/n², which is a sum of three products."""
    task = TASKS["variance"]
    torch.manual_seed(0)
    network = best.products(task).double()
    f, table = network.pooling.f, network.h.weight
    values = torch.arange(100.0, dtype=torch.float64)
    wanted = (
        torch.stack([values**2, torch.ones(100).double(), -2 * values]),
        torch.stack([values**0, values**2, values]),
    )
    with torch.no_grad():
        for g, rows in zip(f.g, wanted, strict=True):
            g.weight.zero_()
            g.bias.zero_()
            g.weight[:3] = torch.linalg.solve(table, rows.T).T
        network.rho.weight.zero_()
        network.rho.weight[:, :3] = 9 / 20  # ordered pairs of different places: a mean over 90, of 100, halved
        network.rho.bias.zero_()
        x, y = task.draw(20, 0)
        torch.testing.assert_close(network(Ragged.from_padded(x))[:, 0].float(), y, rtol=1e-4, atol=1e-2)
