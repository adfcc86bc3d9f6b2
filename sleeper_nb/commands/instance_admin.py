"""`instances` and `add-instance`: the instances of a warehouse, and what one needs on AWS."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from sleeper_nb.commands.command import AWS, DRY_RUN, command, flag, given_aws, option, positional
from sleeper_nb.commands.confirm import line_again
from sleeper_nb.commands.context import Context, pairs
from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.report import Answer, Grid

if TYPE_CHECKING:
    from sleeper_nb.public_types import DeployReport, InstanceSummary
    from sleeper_nb.report import Listing

_ONLY_WITH_DEPLOY = (
    option("--instance", text="with --deploy, its name; default if not given", metavar="I"),
    *AWS,
    DRY_RUN,
    flag("--force", "make what the plan of --deploy says; what is there stays"),
)


@command(
    "instances",
    "list the instances of the warehouse; their tables and rows",
    examples=("instances",),
    reads_only=True,
    warehouse="place",
)
def instances(context: Context, _arguments: Namespace) -> Listing[InstanceSummary]:
    return context.warehouse().instances()


@command(
    "add-instance",
    "create an instance without tables; also a file of its properties, or all that it needs on AWS",
    positional("name", "its name: letters, digits, - and _; with --deploy s3://bucket/prefix", metavar="NAME"),
    option("--set", text="a property of the instance; can be repeated", metavar="NAME=VALUE", many=True),
    flag("--deploy", "plan bucket, DynamoDB tables and properties; --force makes what is missing"),
    *(replace(each, only_with="--deploy") for each in _ONLY_WITH_DEPLOY),
    examples=(
        "add-instance test",
        "add-instance test --set sleeper.default.table.gc.delay.minutes=60",
        "add-instance s3://bucket/prefix --instance prod --deploy",
        "add-instance s3://bucket/prefix --instance prod --deploy --force",
    ),
    words=("deploy",),
    warehouse="place",
)
def create_instance(context: Context, arguments: Namespace) -> Answer | DeployReport:
    properties = pairs(arguments.set, "--set NAME=VALUE")
    if not arguments.deploy:
        if "://" in arguments.name:
            line = Action(f"add-instance {arguments.name} --instance NAME --deploy")
            raise InvalidInput(f"{arguments.name} is an address, not a name", hint=("to plan one there: ", line))
        path = context.warehouse().add_instance(arguments.name, properties)
        return Answer(Grid((), (), footer=f"created instance {arguments.name}, without tables; its properties: {path}"))
    from sleeper_nb.session.warehouse import deploy  # heavy: it brings pyarrow

    report = deploy(
        arguments.name,
        arguments.instance or "default",
        **given_aws(arguments),
        properties=properties,
        dry_run=arguments.dry_run or not arguments.force,
        progress=context.progress,
    )
    return replace(report, again=line_again(arguments.words, "--force"))
