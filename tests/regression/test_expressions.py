"""What expressions may be: arithmetic and known functions, and no other code."""

import pytest

import evidentia as ev
from evidentia.errors import ConfigurationError
from evidentia.regression.expressions import columns_of, is_learnt, tree_of


def test_columns_of_an_expression_are_its_names_but_those_of_functions():
    tree = tree_of("np.where(k == 'a', log(x), bs(z, df=4) - contr)")
    assert list(columns_of(tree)) == ["k", "x", "z", "contr"] and is_learnt(tree)
    assert not is_learnt(tree_of("np.log(x)")) and is_learnt(tree_of("I(x - z.mean())"))


@pytest.mark.parametrize(
    "term", ["I(x ^ 2)", "log(x ^ 2)", "I((x + 1) ^ 2)", "x:I(x ^ 2)", "offset(I(x ^ 2))"]
)
def test_a_hat_is_no_power_within_an_expression(term):
    with pytest.raises(
        ConfigurationError, match=r"cannot be computed in a formula: \^ is no power here: write \*\*"
    ):
        ev.Regression(f"y ~ {term}")
    with pytest.raises(ConfigurationError, match="is no power here"):
        ev.Regression("I(y ^ 2) ~ x")


@pytest.mark.parametrize(
    "term",
    [
        "__import__('os').system('true')",
        "I(open('/dev/zero').read())",
        "x.to_csv('written')",
        "x.__class__()",
        "I([x for i in range(10 ** 12)])",
        "np.ones(10 ** 12)",
        "np.random.normal(x)",
        "np.load('x')",
        "np.add(x, z, x)",
        "np.log(x, z)",
        "np.log(x, out=x)",
        "I((lambda: x)())",
        "I(x := 3)",
        "I(f'{x}')",
        "bs(x, df=open('/dev/zero'))",
        "bs(x, _state={})",
        "hashed(k, 4, hash_func=exec)",
        "C(k, contr.mro())",
        "C(k, contr.custom(x))",
        "bs(*x)",
        "bs(x, **x)",
        "eval('x')",
        "np.frompyfunc(x, 1, 1)(x)",
        "np.vectorize(x)",
        "I(x if x else z)",
        "I(x and z)",
        "I(not x)",
        "I(x << 3)",
        "I(x @ z)",
        "I(x[0])",
        "I(x in z)",
        "I('a' * x)",
        "I(x * 3j)",
        "I(...)",
        "I(x < 'a')",
        "I(C(k))",
        "log()",
        "C()",
        "I(7)",
        "x + offset(z, 3)",
        "offset(z):x",
        "I(offset(z))",
    ],
)
def test_anything_else_is_refused_before_it_is_computed(term):
    with pytest.raises(ConfigurationError, match="^formula 'y ~ |^formula \"y ~ "):
        ev.Regression(f"y ~ {term}")


@pytest.mark.parametrize(
    "term, message",
    [
        ("mean(x)", r"there is no function mean\. Write np\.mean\(x\)"),
        ("np.log(x, z)", "np.log takes 1 argument, without names"),
        ("np.clip(x, 0)", "np.clip takes 3 arguments"),
        ("bs(x, dff=3)", r"bs\(x, dff=3\) has unknown arguments"),
        ("bs(x, df=z)", "has the argument z; all arguments but the first must be written as numbers or text"),
        ("poly(x, 2) + I(poly(x, 2))", r"poly\(x, 2\) has several columns: it must stand by itself"),
    ],
)
def test_common_mistakes_are_answered_with_what_to_write(term, message):
    with pytest.raises(ConfigurationError, match=message):
        ev.estimate(
            ev.Regression(f"y ~ {term}"), {"y": [1.0, 2, 4, 3], "x": [1.0, 2, 3, 5], "z": [0.0, 1, 1, 0]}
        )


@pytest.mark.parametrize(
    "expression",
    ["-" * 5000 + "x", "(" * 5000 + "x" + ")" * 5000, "+".join(["x"] * 5000), "**".join(["x"] * 5000)],
)
def test_depth_is_bounded(expression):
    with pytest.raises(
        ConfigurationError, match="nested too deeply|too many nested|within each other"
    ) as caught:
        ev.Regression(f"y ~ I({expression})")
    assert len(str(caught.value)) < 1000
    with pytest.raises(ConfigurationError, match="more than 100 operators or parentheses within each other"):
        tree_of("+".join(["x"] * 300))
