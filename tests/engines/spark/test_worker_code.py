"""The code that the workers of a cluster get: it can be imported from a zip, and no key is in their settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from sleeper_nb.engines.spark.spark_workers import code_as_zip, equip_workers
from sleeper_nb.storage.filesystem import open_storage

PACKAGE = Path(__file__).parents[3] / "sleeper_nb"


class Context:
    """What a cluster's SparkContext is to this code."""

    def __init__(self, master: str = "spark://somewhere:7077") -> None:
        self.master, self.environment, self.added = master, dict[str, str](), list[str]()
        self._gateway = None

    @property
    def listFiles(self) -> list[str]:  # noqa: N802 - Spark's name
        return [f"spark://driver:1/files/{Path(path).name}" for path in self.added]

    def addPyFile(self, path: str) -> None:  # noqa: N802
        assert Path(path).stat().st_size
        self.added.append(path)


def equipped(context: Context, environ: dict[str, str] | None = None) -> Context:
    equip_workers(SimpleNamespace(sparkContext=context), environ or {})  # type: ignore[arg-type]
    return context


def test_a_process_imports_the_code_from_the_zip(tmp_path):
    path = tmp_path / "code.zip"
    path.write_bytes(code_as_zip(PACKAGE) or b"")
    script = "import sleeper_nb.read.read_rows as it; print(it.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(path)!r}); {script}"],
        cwd=tmp_path, env={"PATH": ""}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.strip() == f"{path}/sleeper_nb/read/read_rows.py"


def test_the_same_code_is_the_same_zip():
    assert code_as_zip(PACKAGE) == code_as_zip(PACKAGE)


def test_code_that_is_not_in_a_folder_stays(tmp_path):
    assert code_as_zip(tmp_path / "packed.pyz" / "sleeper_nb") is None


def test_a_cluster_gets_the_code_once_and_where_aws_is_but_no_keys():
    settings = {"AWS_REGION": "eu-west-2", "AWS_ENDPOINT_URL_S3": "http://s3:1"}
    secret = {"AWS_SECRET_ACCESS_KEY": "s", "AWS_ACCESS_KEY_ID": "k", "AWS_SESSION_TOKEN": "t", "AWS_PROFILE": "me"}
    context = equipped(equipped(Context(), settings | secret))
    assert context.environment == settings
    assert len(context.added) == 1


def test_workers_of_this_machine_need_nothing():
    context = equipped(Context("local[2]"), {"AWS_REGION": "eu-west-2"})
    assert (context.added, context.environment) == ([], {})


def test_a_cluster_that_takes_no_code_is_used_as_it_is(caplog):
    class Refusing(Context):
        def addPyFile(self, path: str) -> None:  # noqa: N802
            raise RuntimeError(f"{path} is not allowed here")

    equipped(Refusing())
    assert "must have it installed" in caplog.text


def test_a_bucket_is_found_by_another_process_where_it_was_found_here(monkeypatch):
    import pickle

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-2")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "topsecret")
    packed = pickle.dumps(open_storage("s3://bucket/house"))
    assert b"topsecret" not in packed
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    access = pickle.loads(packed).access  # noqa: S301 - ours
    assert (access.region, access.endpoint_url) == ("eu-west-2", "http://127.0.0.1:9")
