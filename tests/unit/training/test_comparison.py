"""`canopy train compare`, as its user types it."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from canopy.domain.errors import InputError
from canopy.settings import Settings
from training.bc.config import BcConfig
from training.comparison import comparison_html
from training.comparison_cli import train_compare
from training.outcome import summary
from training.run import train


@pytest.fixture(scope="module")
def summaries(request, tmp_path_factory):
    """Two runs on one log."""
    home = tmp_path_factory.mktemp("home")
    kept = {}

    def of(config):
        if not kept:
            for name, objective in (("awr", config.objective), ("bc", {"bc": BcConfig()})):
                run = replace(config, objective=objective, out=str(home / name))
                kept[name] = summary(train(run, Settings(home=home)), run)
        return kept["awr"], kept["bc"]

    return of


def test_the_page_shows_both_runs_and_what_they_differ_in(config, summaries):
    first, second = summaries(config)
    page = comparison_html(first, second)
    for expected in (first["policy_id"], second["policy_id"], "objective.awr.beta", "not set"):
        assert expected in page
    assert page.count("<svg") == 3
    assert "A: awr" in page
    assert "B: bc" in page
    assert "different logs" not in page
    assert page == comparison_html(first, second)


@pytest.mark.parametrize(
    ("change", "caution"),
    [
        ({"data_hash": "other"}, "different logs"),
        ({"catalog_hash": "other"}, "catalogs differ"),
        ({"reward": []}, "rewards are made of different components"),
    ],
)
def test_what_cannot_be_compared_as_it_stands_is_said(config, summaries, change, caution):
    first, second = summaries(config)
    assert caution in comparison_html(first, {**second, **change})


def test_files_of_the_command_s_own_output_are_compared(config, summaries, tmp_path):
    for name, document in zip("ab", summaries(config), strict=True):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    words = [str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    page = tmp_path / "pages" / "page.html"
    found = CliRunner().invoke(train_compare, [*words, "--html", str(page), "--json"])
    document = json.loads(found.stdout)
    assert document["settings"]["objective.bc.name"] == [None, "bc"]
    assert document["recorded_with"] == []
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_a_file_that_is_no_summary_is_an_error(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    found = CliRunner().invoke(train_compare, [str(path), str(path), "--html", "x"])
    assert isinstance(found.exception, InputError)
    assert "a.json" in str(found.exception)
