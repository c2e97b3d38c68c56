"""Models that servers offer themselves: which are the same, and the names of the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queueing.core.catalog import Catalog, with_found
from queueing.core.requests import Capability
from queueing.core.specs import BackendSpec, HostSpec, ModelSpec

WRITES = frozenset({Capability.TEXT_TO_TEXT})


def catalog(*models: ModelSpec, b_kind: str = "openai") -> Catalog:
    kinds = {"a": "openai", "b": b_kind, "c": "openai"}
    backends = tuple(BackendSpec(name=name, kind=kind) for name, kind in kinds.items())
    return Catalog(models, [HostSpec(name="home", vram_mb=24_000, backends=backends)])


def found(name: str, backend: str, *, size_mb: int | None = 8000, **given: object) -> ModelSpec:
    options = {"model": given.pop("model", f"org/{name}")}
    fields = {"capabilities": WRITES, "options": options} | given
    return ModelSpec(name=name, backends=(backend,), vram_mb=size_mb, **fields)  # type: ignore[arg-type]


def placed(models: tuple[ModelSpec, ...]) -> dict[str, tuple[str, ...]]:
    return {model.name: model.backends for model in models}


def test_the_same_model_on_two_servers_is_served_by_both() -> None:
    """The second GPU would be idle while people wait for the first."""
    models = with_found(catalog(), [found("alpha", "a"), found("alpha", "b", parallel=4)])
    assert placed(models) == {"alpha": ("a", "b")}
    assert models[0].parallel == 1


@pytest.mark.parametrize(
    "other",
    [
        found("alpha", "b", model="other/alpha"),
        found("alpha", "b", size_mb=4000),
        found("alpha", "b", size_mb=None),
        found("alpha", "b", capabilities=frozenset({Capability.VISION})),
    ],
)
def test_another_model_of_that_name_is_offered_under_one_of_its_own(other: ModelSpec) -> None:
    """It could not be selected, or a job be done by a model that no one asked for."""
    models = with_found(catalog(), [found("alpha", "a"), other])
    assert placed(models) == {"alpha": ("a",), "alpha-b": ("b",)}
    assert placed(with_found(catalog(*models), [other])) == placed(models)


def test_two_kinds_of_servers_do_not_have_the_same_model() -> None:
    """A name says nothing about the file behind it."""
    models = with_found(catalog(b_kind="lmstudio"), [found("alpha", "a"), found("alpha", "b")])
    assert placed(models) == {"alpha": ("a",), "alpha-b": ("b",)}


def test_what_the_operator_has_placed_stays_there() -> None:
    """`backends: [a]` would mean nothing."""
    named = ModelSpec(
        name="alpha", backends=("a",), capabilities=WRITES, options={"model": "org/alpha"}
    )
    models = with_found(catalog(named), [found("alpha", "b", size_mb=None), found("Alpha", "a")])
    assert placed(models) == {"alpha": ("a",), "alpha-b": ("b",)}
    assert models[0] == named


def test_one_file_under_two_names_is_one_model() -> None:
    """Two models of one name get longer names on their server, which would make other models of them."""
    models = with_found(
        catalog(), [found("alpha", "a"), found("org-alpha", "b", model="org/alpha")]
    )
    assert placed(models) == {"alpha": ("a", "b")}


def test_a_server_that_is_gone_offers_nothing() -> None:
    """An answer that comes after a reload would bring back what was removed."""
    assert with_found(catalog(), [found("alpha", "elsewhere")]) == ()


@given(
    st.lists(
        st.builds(
            found,
            st.sampled_from(["alpha", "beta", "alpha-b"]),
            st.sampled_from(["a", "b", "c"]),
            size_mb=st.sampled_from([None, 4000, 8000]),
            model=st.sampled_from(["x", "y"]),
        )
    )
)
def test_looking_again_changes_nothing(offered: list[ModelSpec]) -> None:
    """Models would gain names with every check, and jobs lose their models."""
    once = with_found(catalog(), offered)
    assert with_found(catalog(*once), offered) == once
    assert len({model.name for model in once}) == len(once)
    for model in offered:  # each can be asked for, unless its server lists two of a name or file
        (backend,) = model.backends
        assert any(
            backend in each.backends
            and (each.options == model.options or each.name.startswith(model.name))
            for each in once
        )
