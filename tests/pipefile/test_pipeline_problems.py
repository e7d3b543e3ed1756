"""Every mistake in a pipeline file has its code, its place and, where a name is wrong, near matches."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from sample_nodes import catalog, component, echo, found, load, only, pipeline

from rrext.errors import InvalidPipeline
from rrext.limits import Limits
from rrext.nodes.base.node import offered_lanes
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.environment import Environment
from rrext.pipefile.pipeline_loader import load_pipeline
from rrext.pipefile.shape import LANES_OUT
from rrext.pipefile.text import problems
from rrext.pipefile.text.problems import CODES

W = component("w", "webhook")


def agent_pipeline(*more: dict[str, Any]) -> dict[str, Any]:
    return pipeline(
        component("chat_1", "chat"),
        component("agent_1", "agent", "questions:chat_1"),
        component("llm_1", "llm", control="llm:agent_1"),
        component("out", "response_answers", "answers:agent_1"),
        *more,
        source="chat_1",
    )


@pytest.mark.parametrize(
    "document",
    [
        echo(),
        echo(version=1, project_id="x", name="n", description="d", viewport={"x": 1}, docRevision=3),
        {"pipeline": echo()},
        pipeline(W, component("t", "tool_hammer", control="tool:w"), source="w"),
        pipeline(W, component("t", "tool_hammer", control="tool:w")),
        agent_pipeline(),
        agent_pipeline(component("t", "tool_hammer", control="tool:agent_1")),
        pipeline(W, component("a", "ask", "text:w"), component("r", "response", "questions:a", "text:w")),
    ],
)
def test_a_right_pipeline_has_no_problems(document: dict[str, Any]) -> None:
    assert load(document).problems == ()
    assert load(document).spec is not None


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ([], ("wrong_type", "")),
        (3, ("wrong_type", "")),
        ({}, ("missing_key", "/components")),
        ({"pipeline": 3}, ("wrong_type", "/pipeline")),
        ({"pipeline": {}}, ("missing_key", "/pipeline/components")),
        ({"components": {}}, ("wrong_type", "/components")),
        ({"components": None}, ("wrong_type", "/components")),
        (pipeline(W, 3), ("wrong_type", "/components/1")),
        (echo(version="1"), ("wrong_type", "/version")),
        (echo(version=True), ("wrong_type", "/version")),
        (echo(version=2), ("invalid_version", "/version")),
        (echo(name=3), ("wrong_type", "/name")),
        (echo(project_id=3), ("wrong_type", "/project_id")),
        (pipeline(W, {"provider": "ask", "config": {}}), ("missing_key", "/components/1/id")),
        (pipeline(W, {"id": "", "provider": "ask", "config": {}}), ("wrong_type", "/components/1/id")),
        (pipeline(W, {"id": 3, "provider": "ask", "config": {}}), ("wrong_type", "/components/1/id")),
        (pipeline(W, {"id": "a", "config": {}}), ("missing_key", "/components/1/provider")),
        (pipeline(W, {"id": "a", "provider": "ask", "config": []}), ("wrong_type", "/components/1/config")),
        (pipeline(W, {"id": "a", "provider": "ask", "config": {}, "input": {}}), ("wrong_type", "/components/1/input")),
        (pipeline(W, {"id": "a", "provider": "ask", "config": {}, "input": ["w"]}), ("wrong_type", "/components/1/input/0")),
        (
            pipeline(W, {"id": "a", "provider": "ask", "config": {}, "input": [{"lane": "", "from": "w"}]}),
            ("wrong_type", "/components/1/input/0/lane"),
        ),
        (
            pipeline(W, {"id": "a", "provider": "ask", "config": {}, "input": [{"lane": "text"}]}),
            ("missing_key", "/components/1/input/0/from"),
        ),
        (
            pipeline(W, {"id": "a", "provider": "ask", "config": {}, "control": [{"classType": 1, "from": "w"}]}),
            ("wrong_type", "/components/1/control/0/classType"),
        ),
    ],
)
def test_a_wrong_shape_is_named_at_its_place(document: Any, expected: tuple[str, str]) -> None:
    assert expected in found(document) if isinstance(document, dict) else expected in found(str(document))
    assert load(document if isinstance(document, dict) else str(document)).spec is None


def test_all_problems_come_at_once() -> None:
    document = pipeline(
        component("w", "webhok"),
        {"id": "a", "config": {}},
        component("b", "upper", "txt:w", "text:nobody"),
        component("b", "upper", "text:b"),
        version=7,
        source="w",
    )
    codes = {code for code, _ in found(document)}
    expected = {"unknown_provider", "missing_key", "unknown_lane", "from_not_found", "duplicate_id", "invalid_version"}
    assert expected <= codes


def test_an_unknown_provider_names_near_ones() -> None:
    problem = only(pipeline(component("w", "webhok")))
    assert (problem.code, problem.path, problem.near) == ("unknown_provider", "/components/0/provider", ("webhook",))
    assert problem.message == 'There is no node "webhok". Did you mean "webhook"?'


def test_an_alias_is_the_same_node() -> None:
    loaded = load(pipeline(W, component("t", "tool_weather", control="tool:w")))
    assert loaded.require().component("t").node_class.provider == "weather"


def test_a_doubled_id_names_the_first_one() -> None:
    problem = only(pipeline(W, component("a", "upper", "text:w"), component("a", "response_text", "text:w")))
    assert (problem.code, problem.path) == ("duplicate_id", "/components/2/id")
    assert problem.related[0].path == "/components/1/id"


def test_from_that_names_nobody_names_near_ids() -> None:
    problem = only(pipeline(component("webhook_1", "webhook"), component("out", "response_text", "text:webhok_1")))
    assert (problem.code, problem.path, problem.near) == ("from_not_found", "/components/1/input/0/from", ("webhook_1",))


def test_a_lane_that_nobody_has_names_the_lanes_that_fit() -> None:
    problem = only(pipeline(W, component("out", "response_text", "txt:w")))
    assert (problem.code, problem.path, problem.near) == ("unknown_lane", "/components/1/input/0/lane", ("text",))


def test_a_lane_that_the_producer_does_not_offer_names_what_it_offers_and_both_nodes() -> None:
    document = pipeline(component("c", "chat"), component("out", "response_text", "text:c"))
    problem = only(document)
    assert (problem.code, problem.path) == ("lane_not_offered", "/components/1/input/0/lane")
    assert "it offers questions" in problem.message
    assert [other.path for other in problem.related] == ["/components/0/id", "/components/1/id"]


def test_a_lane_that_the_consumer_does_not_accept_names_the_one_that_fits() -> None:
    problem = only(pipeline(W, component("out", "response_text", "questions:w")))
    assert (problem.code, problem.near) == ("lane_not_accepted", ("text",))


def test_a_source_receives_nothing() -> None:
    assert ("lane_not_accepted", "/components/0/input/0/lane") in found(
        pipeline(component("w", "webhook", "text:u"), component("u", "upper", "text:w"), source="w")
    )


def test_the_same_edge_twice_is_a_warning() -> None:
    problem = only(pipeline(W, component("out", "response_text", "text:w", "text:w")))
    assert (problem.code, problem.severity, problem.path) == ("duplicate_edge", "warning", "/components/1/input/1")


def test_a_circle_of_data_is_spelt_out() -> None:
    document = pipeline(
        W,
        component("a", "upper", "text:w", "text:c"),
        component("b", "upper", "text:a"),
        component("c", "upper", "text:b"),
        component("out", "response_text", "text:c"),
    )
    problem = only(document)
    assert (problem.code, problem.path) == ("cycle", "/components/1/input/1")
    assert "a-[text]->b-[text]->c-[text]->a" in problem.message
    assert [other.path for other in problem.related] == ["/components/2/input/0", "/components/3/input/0"]


def test_a_node_that_feeds_itself_is_a_circle() -> None:
    problem = only(pipeline(W, component("a", "upper", "text:w", "text:a"), component("out", "response_text", "text:a")))
    assert problem.code == "cycle"
    assert "a-[text]->a" in problem.message


@pytest.mark.promise("call:nested:no-deadlock")
def test_a_circle_of_control_is_refused() -> None:
    document = agent_pipeline(
        component("agent_2", "agent", control="tool:agent_1 tool:agent_3"),
        component("agent_3", "agent", control="tool:agent_2"),
    )
    problem = next(problem for problem in load(document).problems if problem.code == "control_cycle")
    assert "agent_2-[tool]->agent_3-[tool]->agent_2" in problem.message
    assert load(document).spec is None


def test_several_circles_are_several_problems() -> None:
    document = pipeline(
        W,
        component("a", "upper", "text:w", "text:b"),
        component("b", "upper", "text:a"),
        component("c", "upper", "text:b", "text:d"),
        component("d", "upper", "text:c"),
    )
    assert [code for code, _ in found(document)] == ["cycle", "cycle"]


def test_a_control_edge_on_the_invoker_is_named_as_such() -> None:
    document = pipeline(component("w", "webhook", control="tool:t"), component("t", "tool_hammer"), source="w")
    problem = only(document)
    assert (problem.code, problem.severity, problem.path) == ("control_on_invoker", "error", "/components/0/control/0")
    assert '{"classType": "tool", "from": "w"}' in problem.message
    assert {other.path for other in problem.related} == {"/components/0/id", "/components/1/id"}


def test_a_control_edge_on_an_agent_that_is_a_tool_itself_is_a_warning() -> None:
    document = agent_pipeline(component("t", "tool_hammer"))
    document["components"][1]["control"] = [{"classType": "tool", "from": "t"}]
    codes = {(problem.code, problem.severity) for problem in load(document).problems}
    assert ("control_on_invoker", "warning") in codes


def test_an_llm_bound_the_wrong_way_round_is_an_error() -> None:
    document = agent_pipeline()
    document["components"][1]["control"] = [{"classType": "llm", "from": "llm_1"}]
    del document["components"][2]["control"]
    assert ("control_on_invoker", "/components/1/control/0") in found(document)


def test_a_class_type_that_the_node_does_not_serve_names_what_it_serves() -> None:
    document = agent_pipeline(component("llm_2", "llm", control="lm:agent_1"))
    problem = only(document)
    assert (problem.code, problem.path, problem.near) == (
        "class_type_not_served",
        "/components/4/control/0/classType",
        ("llm",),
    )


def test_a_node_with_tools_serves_as_tool_without_saying_so() -> None:
    assert load(pipeline(W, component("t", "tool_hammer", control="tool:w"))).spec is not None


def test_control_from_nobody_names_near_ids() -> None:
    problem = only(pipeline(component("hook_1", "webhook"), component("t", "tool_hammer", control="tool:hok_1")))
    assert (problem.code, problem.path, problem.near) == ("from_not_found", "/components/1/control/0/from", ("hook_1",))


# config


def test_an_unknown_config_key_is_a_warning_with_near_ones() -> None:
    problem = only(pipeline(W, component("t", "weather", control="tool:w", unit="x")))
    assert (problem.code, problem.severity, problem.path) == ("unknown_config_key", "warning", "/components/1/config/unit")
    assert (problem.near, problem.on) == (("units",), "key")


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"days": 0}, "/components/1/config/days"),
        ({"days": "3"}, "/components/1/config/days"),
        ({"days": True}, "/components/1/config/days"),
        ({"tags": ["a", 1]}, "/components/1/config/tags/1"),
        ({"units": {}}, "/components/1/config/units"),
    ],
)
def test_a_wrong_config_value_is_named_at_its_place_and_not_repeated(config: dict[str, Any], path: str) -> None:
    problem = only(pipeline(W, component("t", "weather", control="tool:w", **config)))
    assert (problem.code, problem.path) == ("invalid_config", path)


def test_all_wrong_config_values_come_at_once() -> None:
    document = pipeline(W, component("t", "weather", control="tool:w", days=0, units=1, tags=3))
    assert [code for code, _ in found(document)] == ["invalid_config"] * 3


def test_a_profile_that_the_node_does_not_have_names_near_ones() -> None:
    problem = only(
        agent_pipeline(
            component("l", "llm", "questions:chat_1", profile="smal"), component("o", "response_answers", "answers:l")
        )
    )
    assert (problem.code, problem.path, problem.near) == ("profile_not_found", "/components/4/config/profile", ("small",))


def test_a_key_beside_its_profile_section_is_a_warning() -> None:
    document = agent_pipeline()
    document["components"][2]["config"] = {"profile": "small", "small": {"model": "m"}, "large": {}, "apikey": "k", "mode": "x"}
    problem = only(document)
    assert (problem.code, problem.path, problem.on) == ("beside_profile", "/components/2/config/apikey", "key")


def test_a_section_that_no_profile_selects_is_a_warning() -> None:
    document = agent_pipeline()
    document["components"][2]["config"] = {"large": {"model": "m"}}
    assert found(document) == [("profile_not_selected", "/components/2/config/large")]


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"profile": ""}, "profile"),
        ({"profile": 3}, "profile"),
        ({"profile": "small", "small": 3}, "small"),
        ({"parameters": []}, "parameters"),
        ({"secureParameters": 1}, "secureParameters"),
        ({"secureParameters": {"secure": "a"}}, "secureParameters/secure"),
        ({"secureParameters": {"token": 1}}, "secureParameters/token"),
    ],
)
def test_the_shape_of_common_config_keys_is_checked(config: dict[str, Any], path: str) -> None:
    document = agent_pipeline()
    document["components"][2]["config"] = config
    assert found(document) == [("wrong_type", f"/components/2/config/{path}")]


# the whole


def test_a_source_that_is_not_there_has_the_text_that_users_know() -> None:
    problem = only(pipeline(component("hook", "webhook"), component("out", "response_text", "text:hook"), source="hoook"))
    assert (problem.code, problem.path, problem.near) == ("source_not_found", "/source", ("hook",))
    assert problem.message.startswith('Pipeline source component "hoook" not found in components list')


def test_without_a_source_there_is_no_pipeline() -> None:
    problem = only(pipeline(component("u", "upper")))
    assert problem.code == "no_source"
    assert problem.message == "Pipeline does not have a source component defined."


def test_several_sources_are_a_pipeline_whose_objects_choose_one() -> None:
    document = pipeline(W, component("c", "webhook"), component("out", "response_text", "text:w"))
    (problem,) = [problem for problem in load(document).problems if problem.code == "multiple_sources"]
    assert problem.severity == "warning"
    assert problem.message.startswith("Pipeline has multiple source components (w, c)")
    assert "--source ID" in problem.message
    spec = load(document).require()
    assert (spec.source, spec.sources, spec.chain) == ("", ("w", "c"), ("out",))
    assert spec.chains == {"w": ("out",), "c": ()}
    assert load({**document, "source": "w"}).require().sources == ("w",)


def test_a_source_for_files_and_one_for_questions_need_no_choice() -> None:
    document = pipeline(W, component("c", "chat"), component("out", "response_text", "text:w"))
    assert "multiple_sources" not in [problem.code for problem in load(document).problems]
    assert load(document).require().sources == ("w", "c")


def test_a_component_needs_no_config() -> None:
    document = pipeline({"id": "w", "provider": "webhook"}, component("out", "response_text", "text:w"))
    assert load(document).problems == ()
    assert load(document).require().component("w").config == {}


def test_a_profile_of_rocketrides_node_is_a_warning_and_its_settings_are_used() -> None:
    config = {"profile": "default", "default": {"size": 77, "splitter": "X"}}
    split = {"id": "s", "provider": "preprocessor_langchain", "config": config, "input": [{"lane": "text", "from": "w"}]}
    document = pipeline(W, split, component("out", "response_documents", "documents:s"))
    loaded = load_pipeline(document, Catalog(installed=False), Environment())
    assert [(problem.code, problem.severity) for problem in loaded.problems] == [
        ("profile_not_found", "warning"),
        ("unknown_config_key", "warning"),
    ]
    assert "RocketRide's preprocessor_langchain" in loaded.problems[0].message
    assert loaded.require().component("s").settings.size == 77


def test_a_misspelt_profile_and_one_of_a_model_stay_errors() -> None:
    for provider, profile in ("embedding_transformer", "minilm"), ("llm_openai", "openai-99"):
        document = pipeline(W, {"id": "n", "provider": provider, "config": {"profile": profile}})
        loaded = load_pipeline(document, Catalog(installed=False), Environment())
        assert ("profile_not_found", "error") in [(problem.code, problem.severity) for problem in loaded.problems]


def test_a_lane_that_rocketrides_node_has_is_a_warning_with_the_reason() -> None:
    parse = {"id": "p", "provider": "parse", "config": {}, "input": [{"lane": "tags", "from": "w"}]}
    document = pipeline(W, parse, component("out", "response", "audio:p", "text:p"))
    (problem,) = load_pipeline(document, Catalog(installed=False), Environment()).problems
    assert (problem.code, problem.severity, problem.path) == ("lane_not_offered", "warning", "/components/2/input/0/lane")
    assert 'RocketRide\'s parse sends on the lane "audio"' in problem.message
    (wrong,) = load_pipeline(
        pipeline(W, parse, component("out", "response", "questions:p", "text:p")), Catalog(installed=False), Environment()
    ).errors
    assert wrong.code == "lane_not_offered"
    for provider, lanes in LANES_OUT.items():
        assert not set(lanes) & set(offered_lanes(Catalog(installed=False).class_of(provider))), "it sends there by now"


def test_the_component_that_says_it_is_the_source_is_the_source() -> None:
    document = pipeline(
        component("w", "webhook", mode="Source"), component("c", "chat"), component("out", "response_text", "text:w")
    )
    loaded = load(document)
    assert loaded.require().source == "w"
    assert [(problem.code, problem.severity) for problem in loaded.problems] == [("other_source", "information")]


def test_the_caller_can_begin_elsewhere() -> None:
    document = pipeline(W, component("w2", "webhook"), component("out", "response_text", "text:w2"), source="w")
    assert load(document, source="w2").require().source == "w2"
    assert found(document, source="w3")[0] == ("source_not_found", "/source")


def test_a_pipeline_cannot_begin_with_just_any_node() -> None:
    document = pipeline(W, component("out", "response_text", "text:w"), source="out")
    assert ("not_a_source", "/source") in found(document)


def test_a_node_that_nothing_reaches_is_a_warning() -> None:
    problem = only(pipeline(W, component("out", "response_text", "text:w"), component("u", "upper"), source="w"))
    assert (problem.code, problem.severity, problem.path) == ("not_connected", "warning", "/components/2/id")


@pytest.mark.parametrize(("offer", "codes"), [(True, []), (False, ["not_connected"])])
def test_a_prompt_that_is_offered_to_hosts_needs_no_source(offer: bool, codes: list[str]) -> None:
    prompt = {"id": "poem", "provider": "prompt", "config": {"instructions": ["Rhyme."], "offer": offer}}
    document = {"components": [{"id": "tools_1", "provider": "tools", "config": {}}, prompt], "source": "tools_1"}
    loaded = load_pipeline(document, Catalog(installed=False), Environment())
    assert [problem.code for problem in loaded.problems] == codes


def test_what_hangs_from_a_broken_edge_is_not_reported_again() -> None:
    document = pipeline(W, component("u", "upper", "text:nobody"), component("out", "response_text", "text:u"), source="w")
    assert found(document) == [("from_not_found", "/components/1/input/0/from")]


def test_a_pipeline_whose_results_nobody_collects_is_a_warning() -> None:
    problem = only(pipeline(W, component("u", "upper", "text:w")))
    assert (problem.code, problem.severity, problem.path) == ("no_response", "warning", "/components/0/id")
    assert problem.related[0].path == "/components/1/id"


def test_a_branch_whose_output_nobody_reads_is_a_warning() -> None:
    problem = only(pipeline(W, component("u", "upper", "text:w"), component("out", "response_text", "text:w")))
    assert (problem.code, problem.severity, problem.path) == ("output_unread", "warning", "/components/1/id")


def test_a_chat_that_nobody_listens_to_is_a_warning() -> None:
    problem = only(pipeline(component("c", "chat"), component("t", "tool_hammer", control="tool:c")))
    assert (problem.code, problem.severity) == ("source_unread", "warning")
    assert only(pipeline(W)).code == "source_unread"


def test_a_key_for_a_lane_that_does_not_arrive_is_a_warning() -> None:
    lanes = [{"laneId": "text", "laneName": "a"}, {"laneId": "answers", "laneName": "b"}]
    problem = only(pipeline(W, component("r", "response", "text:w", lanes=lanes)))
    assert (problem.code, problem.path) == ("response_key_unread", "/components/1/config/lanes/1/laneId")


def test_helpers_that_a_node_needs_are_counted() -> None:
    document = agent_pipeline()
    del document["components"][2]
    assert found(document) == [("invoke_missing", "/components/1/id")]
    document = agent_pipeline(component("llm_2", "llm", control="llm:agent_1"))
    assert found(document) == [("invoke_excess", "/components/1/id")]


def test_a_misspelt_key_is_a_warning_and_editor_keys_are_not() -> None:
    document = echo(sourc="w", ui={}, isLocked=True)
    document["components"][1]["inputs"] = []
    document["components"][1]["ui"] = {"x": 1}
    del document["source"]
    assert found(document) == [("unknown_key", "/sourc")]
    document = echo()
    document["components"][1]["inputs"] = document["components"][1].pop("input")
    assert ("unknown_key", "/components/1/inputs") in found(document)


def test_a_wrapped_pipeline_has_its_problems_at_the_places_of_the_file() -> None:
    assert found({"pipeline": pipeline(component("w", "webhok"))}) == [("unknown_provider", "/pipeline/components/0/provider")]


def test_limits_are_problems_with_their_names() -> None:
    limits = Limits(max_components=1, max_problems=2, max_depth=6)
    assert ("too_many_components", "/components") in found(echo(), limits=limits)
    deep: Any = {}
    for _ in range(6):
        deep = {"a": deep}
    for way in (deep, json.dumps(deep)):
        assert [problem.code for problem in load_pipeline(way, catalog(), Environment(), limits=limits).problems] == [
            "too_deep"
        ]
    many = pipeline(*[component(f"a{n}", "nobody") for n in range(5)])
    codes = [code for code, _ in found(many, limits=Limits(max_problems=2))]
    assert codes == ["unknown_provider", "unknown_provider", "too_many_problems"]
    assert load(many, limits=Limits(max_problems=2)).spec is None


def test_what_the_scanner_reported_is_not_reported_again() -> None:
    text = json.dumps(pipeline(W, component("o", "response_text", "text:w"))).replace('"from": "w"', '"from": ')
    assert [code for code, _ in found(text)] == ["expected_value"]


def test_problems_stand_in_the_order_of_the_text() -> None:
    text = '{"components": [{"id": "w", "provider": "webhok", "config": {,}}, {"id": "o", "provider": "respons"}]} x'
    loaded = load(text)
    assert loaded.source_map is not None
    spans = [loaded.source_map.span_of(problem) for problem in loaded.problems]
    assert spans == sorted(spans)
    assert len(spans) >= 4


def test_a_wrong_pipeline_is_refused_with_all_its_problems() -> None:
    with pytest.raises(InvalidPipeline, match="There is no node") as caught:
        load(pipeline(component("w", "webhok"), component("x", "y"))).require()
    assert [problem["code"] for problem in caught.value.data["problems"]] == ["unknown_provider"] * 2
    assert caught.value.data["problems"][0]["near"] == ["webhook"]


def test_every_code_is_used_and_every_used_code_is_described() -> None:
    engine = Path(problems.__file__).parents[1]
    tasks = engine.parent / "engine" / "tasks"
    others = [tasks / "probe.py", tasks / "foreign.py"]
    paths = [*engine.rglob("*.py"), *others]
    source = "\n".join(path.read_text(encoding="utf-8") for path in paths if path.name != "problems.py")
    used = set(re.findall(r'"([a-z][a-z0-9_]+)"', source))
    assert set(CODES) - used == {"too_many_problems"}
    for path in paths:
        for code in re.findall(r'(?:problems\.add|\.nonsense|\.report)\(\s*"(\w+)"', path.read_text(encoding="utf-8")):
            assert code in CODES, f"{path.name} reports {code}"


def test_any_json_value_gives_problems_and_no_exception() -> None:
    from hypothesis import given
    from hypothesis import strategies as st

    keys = st.sampled_from(
        [
            "components",
            "id",
            "provider",
            "config",
            "input",
            "control",
            "lane",
            "from",
            "classType",
            "source",
            "pipeline",
            "profile",
            "version",
        ]
    )
    words = st.sampled_from(
        [
            "w",
            "a",
            "webhook",
            "upper",
            "agent",
            "llm",
            "weather",
            "text",
            "tool",
            "Source",
            "${ROCKETRIDE_X}",
            "",
            1,
            None,
            True,
        ]
    )
    documents = st.recursive(
        words, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5), max_leaves=40
    )
    nodes = catalog()

    @given(documents)
    def check(document: Any) -> None:
        loaded = load_pipeline(document if isinstance(document, dict) else {"components": [document]}, nodes, Environment())
        assert loaded.spec is not None or any(problem.severity == "error" for problem in loaded.problems)

    check()
