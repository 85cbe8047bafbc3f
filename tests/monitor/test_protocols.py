import pytest

from evidentia.monitor.protocols import all_or_none


class Counter:
    """A model whose state is the number of batches it has seen."""

    def __init__(self):
        self.state = 0

    def update(self, batch):
        if batch == "bad":
            raise ValueError(batch)
        self.state += 1

    def restore(self, state):
        self.state = state


def test_a_batch_that_fails_in_one_model_is_in_none():
    first, second = Counter(), Counter()
    with all_or_none([first, second]):
        first.update("good")
        second.update("good")
    with pytest.raises(ValueError, match="bad"), all_or_none([first, second]):
        [model.update(batch) for model, batch in ((first, "good"), (second, "bad"))]
    assert (first.state, second.state) == (1, 1)


def test_what_cannot_be_restored_is_left():
    with pytest.raises(ValueError, match="bad"), all_or_none([object()]):  # type: ignore[list-item]
        raise ValueError("bad")
