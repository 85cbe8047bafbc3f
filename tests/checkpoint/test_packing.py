from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float

from evidentia.checkpoint.packing import UnknownRecordError, check_fields, pack, unpack


class Pair(NamedTuple):
    first: Any
    second: Any = None


@dataclass(frozen=True)
class Settings:
    size: int = 3
    inner: Any = None


RECORDS = {"Pair": Pair, "Settings": Settings}


def there_and_back(value):
    arrays = []
    return unpack(pack(value, arrays), arrays, RECORDS)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -0.1,
        float("inf"),
        "text",
        (1, (2.5, None)),
        [1, []],
        {"a": {"b": (1,)}},
        Pair(1, Pair("x")),
        Settings(4, Settings()),
    ],
    ids=str,
)
def test_what_json_can_hold_comes_back(value):
    back = there_and_back(value)
    assert back == value and type(back) is type(value)


def test_arrays_come_back_with_dtype_shape_and_place():
    value = Pair(
        np.arange(6.0).reshape(2, 3),
        {"device": jnp.ones(2, jnp.float32), "empty": np.zeros((0, 2), np.int32)},
    )
    back = there_and_back(value)
    assert isinstance(back.first, np.ndarray) and back.first.dtype == np.float64
    assert isinstance(back.second["device"], jax.Array) and back.second["device"].dtype == jnp.float32
    assert back.second["empty"].shape == (0, 2) and back.second["empty"].dtype == np.int32
    np.testing.assert_array_equal(back.first, value.first)


def test_a_random_key_goes_on_where_it_was():
    key = jax.random.split(jax.random.key(3))[0]
    np.testing.assert_array_equal(jax.random.normal(there_and_back(key), (3,)), jax.random.normal(key, (3,)))


def test_numpy_scalars_become_numbers():
    assert there_and_back((np.float64(0.1), np.int64(2), np.bool(True))) == (0.1, 2, True)


def test_what_cannot_be_packed_or_is_not_known_is_an_error():
    with pytest.raises(TypeError, match="cannot hold a function"):
        pack((1, lambda: 0), [])
    with pytest.raises(UnknownRecordError, match="Pair"):
        unpack(pack(Pair(1), []), [], {})


class Typed(NamedTuple):
    values: Float[np.ndarray, " rows"]
    weights: Float[np.ndarray, " rows"]
    count: int = 1
    inner: Settings | None = None
    pairs: tuple[Pair, ...] = ()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"count": True}, "count of Typed is a bool"),
        ({"count": 2**70}, "count of Typed is a int"),
        ({"values": np.zeros(3, int)}, "values of Typed is an array of int64"),
        ({"weights": np.zeros(4)}, r"weights of Typed is an array of float64 of shape \(4,\)"),
        ({"inner": Pair(1)}, "inner of Typed is a Pair"),
        ({"pairs": (Pair(1), 2)}, "pairs of Typed is a tuple"),
    ],
)
def test_a_field_of_another_type_is_an_error(changes, said):
    right = Typed(np.zeros(3), np.ones(3), 2, Settings(), (Pair(1), Pair(2)))
    check_fields(right)
    with pytest.raises(TypeError, match=said):
        check_fields(right._replace(**changes))
