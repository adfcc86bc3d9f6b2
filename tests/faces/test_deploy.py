"""One line plans an instance on AWS and makes it; the policies of the page on roles allow what each role does."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from docs.markdown import code_blocks
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import InvalidInput, StorageError
from tests.servers.fixtures import use
from tests.support.iam import allows, only

SCHEMA = sl.Schema({"city": "string"}, values={"fare": "double?"})
ROWS = [{"city": "rome", "fare": 1.0}, {"city": "bern", "fare": None}]
ROLES = ("reader", "writer", "maintainer")
PAGE = (Path(__file__).parents[2] / "docs" / "aws-roles.md").read_text(encoding="utf-8")
STORES = ("S3StateStore", "DynamoDBStateStore", "TransactionLogStateStore")


def policy_of(role, bucket="lake", prefix="house", instance="prod", region="eu-west-2") -> dict[str, Any]:
    """Return the policies that the page says a role needs, as one, with names in the places of its words."""
    texts = [text for language, text in code_blocks(PAGE) if language == "json"]
    assert len(texts) == len(ROLES)
    text = "[" + ",".join(texts[: ROLES.index(role) + 1]) + "]"
    for word, name in {"BUCKET": bucket, "PREFIX": prefix, "INSTANCE": instance, "REGION": region}.items():
        text = text.replace(word, name)
    return {"Statement": [statement for policy in json.loads(text) for statement in policy["Statement"]]}


@pytest.fixture
def folder(tmp_path):
    return tmp_path


class Place:
    """A bucket that is not there yet, and an instance in it."""

    def __init__(self, server, name="", folder="house"):
        self.name = name or uuid.uuid4().hex[:12]
        self.server, self.warehouse = server, f"s3://new-{self.name}/{folder}"
        self.aws = {"region": "us-east-1", "endpoint_url": server.endpoint_url}
        self.line = f"{self.warehouse} --instance {self.name} --region us-east-1 --endpoint-url {server.endpoint_url}"

    def connect(self):
        return sl.connect(self.warehouse, self.name, **self.aws)

    def policy(self, role):
        bucket, _, prefix = self.warehouse.removeprefix("s3://").partition("/")
        return policy_of(role, bucket, prefix, self.name, "us-east-1")


@pytest.fixture
def place(moto, monkeypatch):
    use(moto, monkeypatch)
    return Place(moto)


def states(report):
    return [step.state for step in report.steps]


def test_a_plan_changes_nothing_and_force_makes_what_is_missing_once(place, shell):
    def type_in(more=""):
        return shell.run_line_magic("sleeper", f"add-instance {place.line} --deploy {more}".strip())

    plan = type_in()
    assert states(plan) == ["to make"] * 7
    assert f"%sleeper add-instance {place.line} --deploy --force does it" in repr(plan)
    assert states(type_in("--force --dry-run")) == ["to make"] * 7
    assert states(type_in("--force --set sleeper.default.table.gc.delay.minutes=60")) == ["made"] * 7
    again = type_in("--force")
    assert states(again) == ["exists"] * 7
    assert f"open it: %sleeper use {place.line}\n" in f"{again!r}\n"
    python = sl.deploy(place.warehouse, place.name, **place.aws)
    assert f"endpoint_url={place.server.endpoint_url!r})" in repr(python)
    assert states(type_in()) == ["exists"] * 7
    with place.connect() as session:
        assert session._components.property_files.instance["sleeper.default.table.gc.delay.minutes"] == 60
        session.create_table("trips", SCHEMA).ingest(ROWS)
    assert {step["state"] for step in again.to_dict()["steps"]} == {"exists"}


def test_an_instance_whose_tables_have_their_own_dynamodb_tables_gets_no_shared_ones(place, shell):
    line = f"add-instance {place.line} --deploy"
    plan = shell.run_line_magic("sleeper", f"{line} --set sleeper.statestore.dynamodb.tables=own")
    assert states(plan) == ["to make"] * 4
    made = shell.run_line_magic("sleeper", f"{line} --set sleeper.statestore.dynamodb.tables=own --force")
    assert states(made) == ["made"] * 4
    again = shell.run_line_magic("sleeper", line)  # the file says it now
    assert states(again) == ["exists"] * 4
    with place.connect() as session:
        table = session.create_table("trips", SCHEMA, state_store="DynamoDBStateStore")
        table.ingest(ROWS)
        assert table.scan().count() == 2


def test_without_keys_the_plan_shows_what_is_needed_and_makes_nothing(place, sleeper, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    words = ("add-instance", *place.line.split(), "--deploy")
    code, out, _ = sleeper(*words)
    assert (code, out.count("not checked (no keys)")) == (0, 7)
    code, _, err = sleeper(*words, "--force")
    assert (code, "no credentials" in err, "aws sso login" in err) == (1, True, True)
    nowhere = [word for word in words if word not in {"--region", "us-east-1"}]
    code, _, err = sleeper(*nowhere)
    assert (code, 'give --region R, set AWS_REGION, or write region = "…" in sleeper.toml' in err) == (1, True)
    monkeypatch.setenv("AWS_REGION", "eu-west-2")
    assert sleeper(*nowhere)[0] == 0


def test_what_was_made_before_an_error_stays_and_the_next_run_makes_the_rest(place):
    place.server.client("s3").create_bucket(Bucket=f"new-{place.name}")
    with only(place.policy("writer")), pytest.raises(StorageError, match="dynamodb:CreateTable"):
        sl.deploy(place.warehouse, place.name, **place.aws, dry_run=False)
    assert states(sl.deploy(place.warehouse, place.name, **place.aws)) == ["exists", *["to make"] * 6]
    assert states(sl.deploy(place.warehouse, place.name, **place.aws, dry_run=False)) == ["exists", *["made"] * 6]


def all_reads(session):
    table = session.table("trips")
    assert table.scan().count() == 2
    assert table.scan(version=2).to_arrow().num_rows == 2
    assert session.sql("SELECT count(*) AS n FROM trips", engine="duckdb").to_arrow()["n"].to_pylist() == [2]
    assert [each.name for each in session.tables()] == ["trips"]
    assert table.history()
    assert table.inspect.status()
    assert table.maintenance.check().ok
    lazy = table.scan(version=2).to_dataset()  # an old version is held by a lease, which a reader cannot take
    assert lazy.to_table().num_rows == 2


def all_writes(session, state_store):
    table = session.create_table("other", SCHEMA, ["m"], state_store=state_store)
    table.ingest(ROWS)
    table.delete("city = 'rome'", engine="duckdb")
    table.create_savepoint("kept")
    table.set_properties({"snapshot.num-retained.min": "3"})
    table.maintenance.compact("all", engine="local")
    table.delete_savepoint("kept", force=True)


OWN_TABLES = "DynamoDBStateStore, own tables"


@pytest.mark.parametrize("state_store", [pytest.param(STORES[0], marks=pytest.mark.long), *STORES[1:], OWN_TABLES])
def test_each_role_can_do_its_work_and_a_lesser_one_is_refused_by_the_name_of_the_action(place, state_store):
    state_store, _, own = state_store.partition(", ")
    properties = {"sleeper.statestore.dynamodb.tables": "own" if own else "shared"}
    sl.deploy(place.warehouse, place.name, **place.aws, properties=properties, dry_run=False)
    with place.connect() as session:
        session.create_table("trips", SCHEMA, ["m"], state_store=state_store).ingest(ROWS)
    with only(place.policy("reader")) as used:
        with place.connect() as session:
            all_reads(session)
            with pytest.raises(sl.AccessDenied):
                session.table("trips").ingest(ROWS)
        with place.connect() as session:
            all_reads(session)  # and nothing was added
        assert (
            {"s3:ListBucket", "s3:GetObject", "dynamodb:Query"}
            <= used
            <= {action for statement in place.policy("reader")["Statement"] for action in statement["Action"]}
        )
    with only(place.policy("writer")), place.connect() as session:
        if not own:  # whose new tables only a maintainer makes
            all_writes(session, state_store)
            assert session.table("other").scan().count() == 1
        session.table("trips").ingest(ROWS[:1])
        session.table("trips").rollback(2)
    with only(place.policy("maintainer")), place.connect() as session:
        if own:
            all_writes(session, state_store)
        session.drop_table("other", force=True)
        session.table("trips").maintenance.collect_garbage(dry_run=False)
        session.table("trips").maintenance.expire(dry_run=False)
        assert session.table("trips").scan().count() == 2


def other_place(place):
    """Return another prefix of the same bucket, with the same name of the instance."""
    return Place(place.server, place.name, "barn")


def forget_warehouse(session):
    """Make the catalog what an earlier release made: it recorded no warehouse."""
    catalog = session._components.catalog
    change = catalog._index("format").update("catalog", "REMOVE #warehouse")
    assert catalog.db.transact([change]) is None


def test_another_prefix_with_the_same_instance_name_is_refused_everywhere(place, cell, sleeper):
    sl.deploy(place.warehouse, place.name, **place.aws, dry_run=False)
    with place.connect() as session:
        session.create_table("trips", SCHEMA).ingest(ROWS)
    other = other_place(place)
    says = f"instance '{place.name}' of this account and region belongs to {place.warehouse}"
    for attempt in (
        other.connect,
        lambda: sl.deploy(other.warehouse, other.name, **other.aws),
        lambda: sl.deploy(other.warehouse, other.name, **other.aws, dry_run=False),
        lambda: cell(f"%sleeper use {other.line}"),
    ):
        with pytest.raises(InvalidInput, match=says) as error:
            attempt()
        assert "instance" in error.value.hint
    code, out, _ = sleeper("doctor", *other.line.split(), "--json")
    found = {each["name"]: each for each in json.loads(out)["checks"]}["DynamoDB"]
    assert (code, found["state"], found["found"]) == (1, "failed", says)
    assert "--instance NAME" in found["fix"]
    with place.connect() as session:
        assert session.table("trips").scan().count() == 2


def test_two_that_make_an_instance_at_once_do_not_share_it(place):
    place.server.client("s3").create_bucket(Bucket=f"new-{place.name}")
    with place.connect() as session, other_place(place).connect() as late:  # neither has anything yet
        session.create_table("trips", SCHEMA).ingest(ROWS)
        with pytest.raises(InvalidInput, match=rf"belongs to {place.warehouse}\n"):
            late.create_table("trips", SCHEMA)
        assert session.table("trips").scan().count() == 2


def test_an_instance_of_an_earlier_release_goes_to_the_warehouse_that_has_its_tables(place):
    sl.deploy(place.warehouse, place.name, **place.aws, dry_run=False)
    with place.connect() as session:
        session.create_table("trips", SCHEMA).ingest(ROWS)
        forget_warehouse(session)
    other = other_place(place)
    with pytest.raises(InvalidInput, match="none of its tables has its files in"):
        other.connect()
    with only(place.policy("reader")), place.connect() as session:
        assert session.table("trips").scan().count() == 2  # it may not record the warehouse, and reads
    with pytest.raises(InvalidInput, match="none of its tables has its files in"):
        other.connect()
    with place.connect() as session:
        assert session.table("trips").scan().count() == 2
    with pytest.raises(InvalidInput, match=rf"belongs to {place.warehouse}\n"):
        other.connect()


def test_an_earlier_instance_without_tables_goes_to_the_first_that_makes_one(place):
    place.server.client("s3").create_bucket(Bucket=f"new-{place.name}")
    with place.connect() as session:
        session.create_table("trips", SCHEMA)
        session.drop_table("trips", force=True)
        forget_warehouse(session)
    with other_place(place).connect() as session:
        session.create_table("trips", SCHEMA).ingest(ROWS)
    with pytest.raises(InvalidInput, match=rf"belongs to {other_place(place).warehouse}\n"):
        place.connect()


def test_an_earlier_instance_whose_tables_are_in_two_warehouses_stays_open_to_both(place, caplog):
    other, client = other_place(place), place.server.client("s3")
    sl.deploy(place.warehouse, place.name, **place.aws, dry_run=False)
    with place.connect() as session:
        key = f"house/{place.name}/config/tables/table-{session.create_table('trips', SCHEMA).entry.id}.properties"
        session.create_table("more", SCHEMA)
        forget_warehouse(session)
    client.put_object(Bucket=f"new-{place.name}", Key=key.replace("house", "barn"), Body=b"")
    client.delete_object(Bucket=f"new-{place.name}", Key=key)
    for each in (place, other, place):
        with each.connect() as session:
            assert len(session.tables()) == 2
        assert "tables of several warehouses" in caplog.text
        caplog.clear()


@pytest.mark.parametrize("role", ROLES)
def test_a_policy_reaches_no_other_instance_bucket_or_prefix(role):
    policy = policy_of(role)
    assert allows(policy, "s3:GetObject", "arn:aws:s3:::lake/house/prod/t/data/x.parquet", None)
    for other in ("lake/house/production/x", "lake/prod/x", "lake2/house/prod/x"):
        assert not allows(policy, "s3:GetObject", f"arn:aws:s3:::{other}", None)
    assert not allows(policy, "s3:ListBucket", "arn:aws:s3:::lake", "other/")
    assert not allows(policy, "s3:ListBucket", "arn:aws:s3:::lake", "")
    own = f"table-{ManualClock().new_id()[:8]}-active-files"

    def reaches(table, region="eu-west-2"):
        return allows(policy, "dynamodb:Query", f"arn:aws:dynamodb:{region}:1:table/{table}", None)

    tables = ("index", "tables", "active-files", "ready-for-gc-files", "partitions", own)
    for name in tables:
        assert reaches(f"sleeper-prod-{name}")
        for other in ("production", "prod-eu", "prod-table", "prod-table-eu"):
            assert not reaches(f"sleeper-{other}-{name}"), other
    assert not reaches("sleeper-prod-index", "us-east-1")
    assert not any("*" in action for each in policy["Statement"] for action in each["Action"])


@pytest.mark.parametrize("prefix", ["ho${*}se", "ho${?}se", "ho${$}se"])
def test_a_prefix_written_as_the_page_says_is_no_pattern(prefix):
    policy, plain = policy_of("reader", prefix=prefix), prefix.replace("${", "").replace("}", "")
    assert allows(policy, "s3:GetObject", f"arn:aws:s3:::lake/{plain}/prod/x", None)
    assert allows(policy, "s3:ListBucket", "arn:aws:s3:::lake", f"{plain}/prod/")
    assert not allows(policy, "s3:GetObject", "arn:aws:s3:::lake/hoXse/prod/x", None)
    assert not allows(policy, "s3:ListBucket", "arn:aws:s3:::lake", "hoXse/prod/")


def test_what_cannot_be_deployed_says_so(cell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="is a folder"):
        cell("%sleeper add-instance ./warehouse --deploy")
    with pytest.raises(InvalidInput, match="is an address"):
        cell("%sleeper add-instance s3://bucket/prefix")
    with pytest.raises(InvalidInput, match="--instance needs --deploy"):
        cell("%sleeper add-instance test --instance prod")
    with pytest.raises(InvalidInput, match="--force needs --deploy"):
        cell("%sleeper add-instance prod --force")
    with pytest.raises(InvalidInput, match="not a valid instance name"):
        sl.deploy("s3://some-bucket/house", "my prod")
    assert not list(tmp_path.glob("warehouse"))
