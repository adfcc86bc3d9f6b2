"""Instances, templates and where a warehouse is: as they are typed on the console and in a notebook."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.commands.home import Home, find_home
from sleeper_nb.errors import AlreadyExists, InvalidInput, NotAllowed, NotFound
from sleeper_nb.model.properties import PROPERTIES

DELAY = "sleeper.table.gc.delay.minutes"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLEEPER_WAREHOUSE", raising=False)
    return tmp_path


@pytest.fixture
def demo(sleeper):
    assert sleeper("add-instance", "demo", "--set", "sleeper.default.table.gc.delay.minutes=60")[0] == 0
    return sleeper


def test_a_table_comes_from_edited_templates(demo, folder):
    assert "sleeper add-table INSTANCE-ID" in demo("templates")[1]
    path = folder / "templates" / "tableproperties.template"
    assert path.read_text().isascii()
    assert all(f"\n# {name}=" in path.read_text() for name in PROPERTIES)
    assert demo("add-table", "demo", "plain")[0] == 0
    path.write_text(path.read_text().replace("# snapshot.num-retained.min=10", "snapshot.num-retained.min=3"))
    schema = folder / "templates" / "schema.template"
    schema.write_text(schema.read_text().replace('"timestamp"', '"moment"'))
    code, out, _ = demo("add-table", "demo", "edited")
    assert (code, "moment" in out) == (0, True)
    with sl.connect(folder / "warehouse", instance="demo") as session:
        assert session.table("edited").at().properties["snapshot.num-retained.min"] == 3
        assert session.table("edited").at().properties[DELAY] == 60
        assert session.table("plain").schema.names == ("key", "timestamp", "value")


@pytest.mark.processes
def test_the_script_lines_of_the_specification_as_processes(demo, folder):
    here = {**os.environ, "PYTHONPATH": str(Path(sl.__file__).parents[1])}
    console = [sys.executable, "-c", "import sys; from sleeper_nb.cli import main; sys.exit(main())"]
    for words in (["templates"], ["add-table", "demo", "my-table"]):
        done = subprocess.run([*console, *words], env=here, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(
        [*console, "add-table", "demo", "my-table"], env=here, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, "already exists" in done.stderr) == (1, "", True)


def test_templates_that_are_there_are_never_overwritten_unasked(sleeper, folder):
    assert sleeper("templates", "mine")[0] == 0
    edited = folder / "mine" / "templates" / "schema.template"
    edited.write_text("mine")
    code, _, err = sleeper("templates", "mine")
    assert (code, "--force" in err, edited.read_text()) == (1, True, "mine")
    assert sleeper("templates", "mine", "--force")[0] == 0
    assert edited.read_text() != "mine"


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("schema.json", None, "no file templates/schema.template"),
        ("t.properties", f"# one\n{DELAY}=x\n", f"line 2 of t.properties: property {DELAY} cannot be 'x'"),
        ("t.properties", "\nsnapshot.time=1 d\n", "line 2 of t.properties: no property"),
        ("schema.json", '{"rowKeyFields": [\n {"name": "a" "type": "IntType"}]}', "line 2 column"),
        ("schema.json", '{"rowKeyFields": [\n{"name": "a",\n"type": "Int"}]}', "line 3 of schema.json"),
        ("schema.json", '{"rowKeyFields": [\n{"name": "a",\n"type": "DoubleType"}]}', "line 2 of schema.json"),
        ("schema.json", "a INT KEY\nb SOON\n", "schema.json: unknown field type"),
    ],
)
def test_a_file_that_is_wrong_makes_no_table_and_is_named_with_its_line(demo, folder, file, text, said):
    (folder / "t.properties").write_text("")
    (folder / "schema.json").write_text("a INT KEY\n")
    words = ["add-table", "demo", "t", "--properties", "t.properties"]
    if text is not None:
        (folder / file).write_text(text)
        words += ["--schema", "schema.json"]
    code, _, err = demo(*words)
    assert (code, said in err) == (1, True), err
    assert "\nhint: " in err
    assert "no table" not in demo("tables", "--instance", "demo")[1].replace("tables of demo", "")
    assert demo("describe", "t", "--instance", "demo")[0] == 1


def test_instances_are_listed_with_tables_and_rows(demo, folder):
    (folder / "rows.csv").write_text("a\n1\n2\n")
    (folder / "a.ddl").write_text("a INT KEY\n")
    assert demo("create", "t", "--instance", "other", "--schema", "a.ddl")[0] == 0
    assert demo("ingest", "t", "rows.csv", "--instance", "other")[0] == 0
    (folder / "warehouse" / "no instance").mkdir()
    (folder / "warehouse" / "empty").mkdir()
    rows = [line.split() for line in demo("instances")[1].splitlines()[3:]]
    assert rows == [["demo", "0", "0"], ["other", "1", "2", "t"]]
    code, _, err = demo("add-instance", "demo")
    assert (code, "already exists" in err) == (1, True)
    assert demo("add-instance", "a b")[0] == demo("add-instance", "c", "--set", "sleeper.storage.sink=x")[0] == 1
    assert len(demo("instances")[1].splitlines()) == 5


def test_an_instance_that_is_not_there_is_never_made_by_a_slip(demo, folder):
    demo("templates")
    code, _, err = demo("add-table", "dema", "t")
    assert (code, "instance 'dema'" in err) == (1, True)
    assert [each.name for each in (folder / "warehouse").iterdir()] == ["demo"]


def test_a_table_of_an_instance_goes_offline_and_online(demo):
    demo("templates")
    demo("add-table", "demo", "t")
    assert "t is offline" in demo("set-offline", "demo", "t")[1]
    assert "offline" in demo("tables", "--instance", "demo")[1]
    assert "t is online" in demo("set-online", "demo", "t")[1]


def test_properties_are_shown_set_and_described_on_the_console(demo):
    demo("templates")
    demo("add-table", "demo", "t")
    shared = ("--instance", "demo")
    assert demo("properties", "t", f"{DELAY}=5", *shared)[1].split()[-4:] == [DELAY, "5", "15", "table"]
    assert demo("properties", "t", "--unset", DELAY, *shared)[1].split()[-2:] == ["15", "instance"]
    assert "sleeper.default.table.gc.delay.minutes" in demo("properties", *shared)[1]
    assert demo("properties", "t", f"{DELAY}=x", *shared)[2].startswith("InvalidInput: property")
    assert "whole minutes" in demo("properties", "--describe", "--warehouse", "nowhere")[1]
    assert demo("properties", "t", f"{DELAY}=5", "--describe", *shared)[0] == 1


def test_properties_of_the_instance_are_shown_set_and_described_by_the_same_words(shell):
    def run(line):
        return shell.run_line_magic("sleeper", line)

    run("use warehouse")
    sync, delay = "sleeper.storage.sync", "sleeper.default.table.gc.delay.minutes"
    assert [each.value for each in run(f"properties {sync}")] == ["true"]
    told = run(f"properties {sync}=false {delay}=60")
    assert [(each.name, each.value) for each in told] == [(sync, "false"), (delay, "60")]
    assert f"{sync} takes effect when the warehouse is next opened" in repr(told)
    assert [each.value for each in run(f"properties {delay} {sync}")] == ["60", "false"]
    assert [each.value for each in run(f"properties --unset {sync} --unset {delay}")] == ["true", "15"]
    assert list(run(f"properties --describe {sync} {delay}").to_dict()) == [sync, delay]
    assert len(run("properties --describe").described) > 2
    with pytest.raises(NotFound, match=r"no property 'sleeper\.storage\.sinc'") as caught:
        run("properties sleeper.storage.sinc=false")
    assert caught.value.hint == "did you mean 'sleeper.storage.sync'?"
    with pytest.raises(NotFound, match="no table 'trips'"):
        run(f"properties trips {sync}")


def test_split_points_go_out_and_in_again(demo, folder):
    (folder / "a.ddl").write_text("city STRING KEY, day INT KEY")
    assert demo("create", "t", "--splits", 'g,"n,é"', "--schema", "a.ddl", "--instance", "demo")[0] == 0
    base64_encoded = ("--set", "sleeper.table.splits.base64.encoded=true")
    for name, out, more in (("again", (), ()), ("encoded", ("--base64",), base64_encoded)):
        assert demo("partitions", "t", "--to", "points.txt", *out, "--instance", "demo")[0] == 0
        words = ("create", name, "--schema", "a.ddl", "--splits-file", "points.txt", *more, "--instance", "demo")
        assert demo(*words)[0] == 0
        assert demo("partitions", name, "--to", "again.txt", "--instance", "demo")[0] == 0
        assert (folder / "again.txt").read_text() == "g\nn,é\n"
    assert (folder / "points.txt").read_text().split()[1] == base64.b64encode("n,é".encode()).decode()


def test_the_same_in_a_notebook(shell):
    def run(line):
        return shell.run_line_magic("sleeper", line)

    run("use warehouse --instance demo")
    run("templates")
    assert run("add-table demo trips").name == "trips"
    run("add-instance other")
    assert run("add-table other elsewhere").name == "elsewhere"
    assert [(each.name, each.tables) for each in run("instances")] == [("demo", ("trips",)), ("other", ("elsewhere",))]
    assert "offline" in repr(run("set-offline other elsewhere"))
    assert run(f"properties trips {DELAY}=7")[0].value == "7"
    assert run("properties --describe").described
    with pytest.raises(NotFound):
        run("add-table nowhere t")
    with pytest.raises(AlreadyExists):
        run("add-table demo trips")


def test_use_without_an_address_opens_where_the_environment_or_the_file_says(shell, tmp_path, monkeypatch):
    def used(line="use"):
        return Path(shell.run_line_magic("sleeper", line).warehouse)

    assert used() == Path("warehouse")
    (tmp_path / "sleeper.toml").write_text('warehouse = "here"\n[instances.prod]\nwarehouse = "there"\n')
    assert used() == tmp_path / "here"
    assert used("use --instance prod") == tmp_path / "there"
    assert used("use ./elsewhere") == Path("elsewhere")
    monkeypatch.setenv("SLEEPER_WAREHOUSE", str(tmp_path / "said"))
    assert used() == tmp_path / "said"
    assert {path.name for path in tmp_path.iterdir()} >= {"warehouse", "here", "there", "elsewhere", "said"}


def test_use_asks_before_a_slip_makes_a_warehouse(shell, sleeper, monkeypatch):
    shell.run_line_magic("sleeper", "use ./warehouse")
    Path("t.ddl").write_text("k STRING KEY")
    with pytest.raises(InvalidInput, match=r"there is no warehouse ./warehose, but there is ./warehouse") as error:
        shell.run_line_magic("sleeper", "use ./warehose")
    assert "%sleeper use ./warehouse; or make a new one: %sleeper use ./warehose --new" in str(error.value)
    for words in (["use", "./warehose"], ["--warehouse", "./warehose", "add-instance", "test"],
                  ["--warehouse", "warehose", "create", "t", "--schema", "t.ddl"]):  # fmt: skip
        code, _, err = sleeper(*words)
        assert (code, "make a new one: sleeper use ./warehose --new" in err) == (1, True)
    answers = iter(["", "new"])
    monkeypatch.setattr("sleeper_nb.cli._ask", lambda text: (asked.append(text), next(answers))[1])
    monkeypatch.setattr("sleeper_nb.cli._is_watched", lambda: True)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    asked: list[str] = []
    assert sleeper("use", "./warehose")[0] == 1
    assert not Path("warehose").exists()
    assert sleeper("use", "./warehose")[0] == 0
    assert asked[0] == "there is no warehouse ./warehose, but there is ./warehouse. Type new to make a new one: "
    assert Path("warehose/default/catalog.sqlite").exists()
    assert "new warehouse" in repr(shell.run_line_magic("sleeper", "use ./warehoose --new"))


def test_where_an_instance_lives_is_said_by_option_environment_file_in_this_order(tmp_path):
    (tmp_path / "sleeper.toml").write_text(
        'warehouse = "data"\nregion = "eu-west-1"\n[instances.prod]\nwarehouse = "s3://b/p"\nendpoint-url = "http://h:1"\n'
    )
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_home("x", None, {}, below) == Home(str(tmp_path / "data"), {"region": "eu-west-1"})
    assert find_home("prod", None, {}, below) == Home("s3://b/p", {"region": "eu-west-1", "endpoint_url": "http://h:1"})
    assert find_home("prod", None, {"SLEEPER_WAREHOUSE": "w"}, below) == Home("w")
    assert find_home("prod", "v", {"SLEEPER_WAREHOUSE": "w"}, below) == Home("v")
    (below / "sleeper.toml").write_text('warehouse = "nearer"\n')
    assert find_home("x", None, {}, below).folder == below / "nearer"


def test_a_file_says_the_settings_of_spark_and_an_instance_has_its_own_before_them(tmp_path):
    (tmp_path / "sleeper.toml").write_text(
        'warehouse = "data"\n[spark]\nmaster = "local[4]"\nexecutor.memory = "8g"\nspeculation = true\n'
        '"spark.executor.cores" = 2\n[instances.prod]\nwarehouse = "s3://b/p"\nspark.executor.memory = "9g"\n'
    )
    said = {
        "spark.master": "local[4]", "spark.executor.memory": "8g", "spark.speculation": "true",
        "spark.executor.cores": "2",
    }  # fmt: skip
    home = find_home("x", None, {}, tmp_path)
    assert home.spark == said
    assert find_home("prod", None, {}, tmp_path).spark == {**said, "spark.executor.memory": "9g"}
    for inside in (home.warehouse, f"{home.warehouse}/", f"file://{home.warehouse}", f"{home.warehouse}/below"):
        assert home.for_address(inside).spark == said
    for elsewhere in (f"{home.warehouse}2", str(tmp_path), "s3://b/p", "elsewhere"):
        assert home.for_address(elsewhere) == Home(elsewhere)
    bucket = find_home("prod", None, {}, tmp_path)
    assert bucket.for_address("s3://b/p/") == Home("s3://b/p/", spark=bucket.spark)
    assert bucket.for_address("s3://b/p2") == Home("s3://b/p2")


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The user's own configuration; what an error says to write there is put into it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "sleeper_nb" / "config.toml"
    path.parent.mkdir(parents=True)

    def trust(hint: str) -> None:
        line, where = re.search(r"write (trusted = \[.*\]) into (.*)$", hint).groups()
        assert where == str(path)
        path.write_text(line)

    return trust


def now_of_another_user(path: Path, monkeypatch) -> None:
    if os.geteuid() == 0:
        os.chown(path, 4321, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4321)


@pytest.mark.skipif(os.name == "nt", reason="files have no such owners")
def test_a_file_of_another_user_is_read_only_when_the_users_own_configuration_trusts_it(tmp_path, own, monkeypatch):
    file, below = tmp_path / "sleeper.toml", tmp_path / "a" / "b"
    below.mkdir(parents=True)
    file.write_text('warehouse = "s3://theirs/w"\n[spark]\ndriver.extraJavaOptions = "-javaagent:x.jar"\n')
    now_of_another_user(file, monkeypatch)
    with pytest.raises(NotAllowed, match="belongs to another user") as error:
        find_home("x", None, os.environ, below)
    own(error.value.hint)
    assert find_home("x", None, os.environ, below).spark == {"spark.driver.extraJavaOptions": "-javaagent:x.jar"}
    mine = below / "sleeper.toml"
    (tmp_path / "real.toml").write_text('warehouse = "mine"\n')
    mine.symlink_to(tmp_path / "real.toml")
    now_of_another_user(mine, monkeypatch)  # the link, with which another user chose the folder of my file
    with pytest.raises(NotAllowed, match="belongs to another user") as error:
        find_home("x", None, os.environ, below)
    own(error.value.hint)  # and the file that was trusted before still is
    assert find_home("x", None, os.environ, below).folder == below / "mine"
    assert find_home("x", None, os.environ, below.parent).warehouse == "s3://theirs/w"


@pytest.mark.skipif(os.name == "nt", reason="files have no such modes")
def test_a_file_that_every_user_may_write_to_is_refused_until_its_mode_is_mended_or_it_is_trusted(tmp_path, own):
    file = tmp_path / "sleeper.toml"
    file.write_text('warehouse = "here"\n')
    file.chmod(0o666)
    with pytest.raises(NotAllowed, match="every user may write to") as error:
        find_home("x", None, os.environ, tmp_path)
    assert f"type chmod o-w {file}, or if you trust it: write trusted = " in error.value.hint
    file.chmod(0o664)
    assert find_home("x", None, os.environ, tmp_path).folder == tmp_path / "here"
    file.chmod(0o666)
    own(error.value.hint)
    assert find_home("x", None, os.environ, tmp_path).folder == tmp_path / "here"


@pytest.mark.parametrize(
    "line",
    ['iterators = ["evil:f"]', 'spark.driver.extraJavaOptions = "-javaagent:x.jar"', 'spark.jars = "x.jar"',
     'spark."driver.extraClassPath" = "1"', 'spark.plugins = "Evil"',
     '[instances.x.spark]\n"spark.executorEnv.A" = "b.so"',
     '[instances.x]\niterators = ["evil:f"]', 'spark.hadoop.fs.evil.impl = "Evil"',
     'spark.master = "spark://host:7077"', 'spark.master = "localhost[1]"', "spark.jars.ivySettings = 1",
     'spark."executorEnv.LD_PRELOAD" = "1"', 'spark."python.worker.module" = "1evil"', "spark.yarn.archive = 1",
     'spark.eventLog.dir = "hdfs://host/x"', 'spark."new.option" = 1', 'spark.driver.bindAddress = "0.0.0.0"']
)  # fmt: skip
def test_what_names_code_needs_the_users_own_configuration(tmp_path, own, line):
    (tmp_path / "sleeper.toml").write_text(f"{line}\n")  # which is the user's file, as those of a clone are
    with pytest.raises(NotAllowed, match="may name code, a command or another machine") as error:
        find_home("x", None, os.environ, tmp_path)
    own(error.value.hint)
    home = find_home("x", None, os.environ, tmp_path)
    assert home.iterators or home.spark


def test_plain_settings_of_spark_need_no_trust(tmp_path):
    lines = [
        "driver.memory = '4g'", "executor.cores = 2", "sql.shuffle.partitions = 8", "sql.adaptive.enabled = false",
        "sql.session.timeZone = 'Europe/London'", "local.dir = '/scratch'", "ui.port = 4050", "cores.max = 3",
        "dynamicAllocation.executorIdleTimeout = '60s'", "sql.autoBroadcastJoinThreshold = -1", "app.name = 'x'",
        "memory.fraction = 0.5", "master = 'local[*]'", "shuffle.compress = true", "task.maxFailures = 1",
    ]  # fmt: skip
    (tmp_path / "sleeper.toml").write_text("\n".join(["[spark]", *lines]))
    assert len(find_home("x", None, {}, tmp_path).spark) == len(lines)


def test_a_configuration_that_is_wrong_is_named(tmp_path, own):
    (tmp_path / "sleeper.toml").write_text('iterators = ["evil:f"]\n')
    for text, said in (("trusted = 3", "line 1 of .*config.toml: trusted is not a list"), ("x", "cannot read .*config"),
                       ("trust = []", "did you mean 'trusted'")):  # fmt: skip
        (tmp_path / "config" / "sleeper_nb" / "config.toml").write_text(text)
        with pytest.raises(InvalidInput, match=said):
            find_home("x", None, os.environ, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('\nwarehouze = "a"\n', "line 2 of .*no setting 'warehouze'\nhint: did you mean 'warehouse'"),
        ("warehouse = 3\n", "line 1 of .*warehouse is not a text"),
        ("a\nb", "sleeper.toml: .*line 1"),
        ("instances = 3", "not a table"),
        ('[instances.x]\n\nplace = "a"\n', "line 3 of .*no setting 'place'"),
        ('region = "x"\nspark = "local"\n', r"line 2 of .*spark is not a table\nhint: write spark.master"),
    ],
)
def test_a_file_of_places_that_is_wrong_is_named_with_its_line(tmp_path, text, said):
    (tmp_path / "sleeper.toml").write_text(text)
    with pytest.raises(InvalidInput, match=said):
        find_home("x", None, {}, tmp_path)


def test_the_console_works_below_a_folder_with_a_file(demo, folder, monkeypatch):
    (folder / "sleeper.toml").write_text('[instances.demo]\nwarehouse = "warehouse"\n')
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert demo("tables", "--instance", "demo")[0] == 0
    code, _, err = demo("tables", "--instance", "other")
    assert (code, f"no instance 'other' in {folder}" in err) == (1, True)
    assert "available: demo; sleeper use ./warehouse --instance other creates it" in err.replace(f"{folder}/", "./")
    (folder / "sleeper.toml").write_text("x = 1\n")
    assert demo("tables", "--instance", "demo")[0] == 1


def test_use_on_the_console_says_what_the_next_command_needs(sleeper, folder, monkeypatch):
    answer = sleeper("use", "other warehouse")[1]
    assert "add --warehouse 'other warehouse' to the next, or set SLEEPER_WAREHOUSE" in answer
    monkeypatch.setenv("SLEEPER_WAREHOUSE", "other warehouse")
    assert "SLEEPER_WAREHOUSE" not in sleeper("use", "other warehouse")[1]
