"""The help of every command: its options in groups, and lines to copy."""

import shlex

import pytest
from typer.main import get_command

from coordnet.cli.app import app
from coordnet.cli.declaring import GROUP_OF
from coordnet.cli.specs import parse_prior
from coordnet.priors.registry import PRIORS


def commands(group, path=()):
    for name, command in group.commands.items():
        yield from commands(command, (*path, name)) if hasattr(command, "commands") else [((*path, name), command)]


COMMANDS = dict(commands(get_command(app)))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_it_ends_in_three_lines_to_copy(path, run):
    status, text, _ = run(*path, "--help")
    assert status == 0
    *_, head, one, two, three = text.rstrip().splitlines()
    assert head == "Examples:"
    assert " ".join(("coordnet", *path)) in one
    for line in (one, two, three):
        words = shlex.split(line.split(" < ")[0])
        assert words[0] == "coordnet"
        name = next(name for name in COMMANDS if tuple(words[1 : 1 + len(name)]) == name)
        COMMANDS[name].make_context(" ".join(name), words[1 + len(name) :])  # unknown options are refused


@pytest.mark.parametrize("command", ["inpaint", "denoise", "reconstruct"])
def test_its_options_are_in_groups(command, run):
    text = run(command, "--help")[1]
    titles = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles[-4:] == ["Prior and model:", "Output:", "Running:", "Examples:"]
    assert titles[0] == "Arguments:"
    assert text.index("  -o, --out") < text.index("  --workers <") < text.index("  -h, --help")


@pytest.mark.parametrize("command", ["reconstruct", "inpaint", "demosaic", "grid", "fill", "fit"])
def test_it_lists_every_prior_with_parameters_that_it_has(command, run):
    listed = "".join(run(command, "--help")[1].split("--prior ")[1].split("  --")[0].split())
    for name, kind in PRIORS.items():
        assert f"{name}{kind.usage}".replace(" ", "") in listed
        parameters = kind.usage.partition("[")[2].partition("]")[0]
        assert parse_prior(name + parameters).name == name


def test_every_name_in_a_group_is_an_option():
    options = {option.lstrip("-") for command in COMMANDS.values() for p in command.params for option in p.opts}
    assert set(GROUP_OF) - {"help"} <= options


def test_the_help_of_memory_says_what_every_command_does(run):
    assert "enlarged" not in run("denoise", "--help")[1].split("--memory")[1].split("--help")[0]


@pytest.mark.parametrize("group", [(), ("bench",)])
def test_summaries_are_whole_sentences(group, run):
    lines = run(*group, "--help")[1].split("Commands:")[1].splitlines()
    summaries = " ".join(lines).split("  ")
    assert "..." not in " ".join(lines)
    ends = [line for line, after in zip(lines, [*lines[1:], "  x"], strict=True) if after[2:3].strip()]
    assert all(line.rstrip().endswith(".") for line in ends if line.strip()), summaries
