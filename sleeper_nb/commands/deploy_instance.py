"""`add-instance s3://… --deploy`: plans what an instance needs on AWS, and makes it with `--force`."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from sleeper_nb.commands.command import AWS, DRY_RUN, flag, given_aws, option
from sleeper_nb.commands.confirm import line_again
from sleeper_nb.commands.context import Context
from sleeper_nb.commands.tables import parse_property

if TYPE_CHECKING:
    from sleeper_nb.public_types import DeployReport

_DEPLOY = flag("--deploy", "plan bucket, DynamoDB tables and properties; --force makes what is missing")
_ONLY_WITH_IT = (
    option("--instance", text="with --deploy, its name; default if not given", metavar="I"),
    *AWS,
    DRY_RUN,
    flag("--force", "make what the plan of --deploy says; what is there stays"),
)
DEPLOY_OPTIONS = (_DEPLOY, *(replace(each, only_with="--deploy") for each in _ONLY_WITH_IT))
"""The options of `add-instance` that are about AWS."""


def deploy_instance(context: Context, arguments: Namespace) -> DeployReport:
    """Return the plan of an instance at an address; with `--force`, make what is missing."""
    from sleeper_nb.session.warehouse import deploy

    report = deploy(
        arguments.name,
        arguments.instance or "default",
        **given_aws(arguments),
        properties=dict(map(parse_property, arguments.set)),
        dry_run=arguments.dry_run or not arguments.force,
        progress=context.progress,
    )
    return replace(report, again=line_again(arguments.words, "--force"))
