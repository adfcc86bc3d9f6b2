"""What S3 and DynamoDB share: bounded retries, shown and logged; where they are, and which profile has the keys."""

from __future__ import annotations

import logging
import os
import platform
import re
import shlex
import threading
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from sleeper_nb.clock import Clock, Retry
from sleeper_nb.errors import InvalidInput, StorageError, first_line
from sleeper_nb.progress import SILENT, Progress

if TYPE_CHECKING:
    import boto3

logger = logging.getLogger(__name__)


def in_short(error: Exception) -> str:
    """Return the first line of an error; its kind where botocore repeats what its HTTP client was given."""
    if type(error).__name__ == "HTTPClientError" and type(error).__module__ == "botocore.exceptions":
        return f"its HTTP client failed ({type(_cause_of(error)).__name__})"
    return first_line(error)


def _cause_of(error: Exception) -> object:
    return getattr(error, "kwargs", {}).get("error")


def is_of_header(error: Exception) -> bool:
    """Return whether a request was not sent, because a header, which only keys can do, has a wrong character."""
    from botocore.exceptions import HTTPClientError

    cause = _cause_of(error) if type(error) is HTTPClientError else None
    return isinstance(cause, UnicodeEncodeError) or (
        isinstance(cause, ValueError) and str(cause).startswith("Invalid header")
    )


_T = TypeVar("_T")

WAITS = Retry(first_wait=0.02, max_wait=2.0)
PATIENCE = timedelta(seconds=60)
"""After this time a request is not sent again."""
QUOTA = 300
LOST, ANSWERED = 10, 1
"""What a lost answer takes from the quota, and what an answer returns to it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What an error of a request means."""

    tries: int  # how often the request may be sent in all; 1 when the same request cannot succeed later
    lost: bool  # whether the answer was lost, so that it is unknown whether the request was processed
    why: str


class Network:
    """The connection of one session to S3 and DynamoDB.

    A request whose answer was lost is sent again. A quota bounds how often that happens in all: each lost answer takes
    10 of 300, each answer returns 1, and a minute without a lost answer returns all. So an operation continues as long
    as it needs while one answer in 25 is lost, and a failed network ends it after 30 lost answers, not after hours.
    """

    def __init__(self, clock: Clock | None = None, progress: Progress = SILENT, quota: int = QUOTA) -> None:
        self.clock, self._progress = clock or Clock(), progress
        self._quota = self._left = quota
        self._last_lost = self.clock.now()
        self._lock = threading.Lock()

    def ask(
        self,
        what: str,
        send: Callable[[], _T],
        judge: Callable[[Exception], Judgement],
        give_up: Callable[[Exception, int], _T],
    ) -> _T:
        """Return the answer to a request, which is retried as far as `judge` and the bounds allow.

        Parameters
        ----------
        what
            The service and the operation: ``"DynamoDB Query"``.
        judge
            Returns what an error of `send` means.
        give_up
            Takes the last error and the number of attempts; raises the error for the caller, or returns an answer.
        """
        end, tries = self.clock.now() + PATIENCE, 0
        try:
            while True:
                try:
                    answer = send()
                except Exception as error:  # noqa: BLE001 - `judge` decides what it means
                    if is_of_header(error):
                        hint = "set it again without it; look at the end of AWS_SESSION_TOKEN and AWS_ACCESS_KEY_ID"
                        message = "an AWS key or token has a character, such as a line end, that a request cannot have"
                        raise StorageError(message, hint=hint) from None
                    tries += 1
                    meaning = judge(error)
                    if tries >= meaning.tries or self.clock.now() >= end or not self._may_go_on(lost=meaning.lost):
                        logger.debug("%s failed after %d tries: %s", what, tries, meaning.why)
                        return give_up(error, tries)
                    logger.warning("%s: retrying, attempt %d of %d (%s)", what, tries + 1, meaning.tries, meaning.why)
                    self._progress.update(f"{what}: attempt {tries + 1} of {meaning.tries} ({meaning.why})")
                    WAITS.wait(self.clock, tries - 1)
                else:
                    self._answered()
                    return answer
        finally:
            if tries:
                self._progress.finish()

    def _may_go_on(self, *, lost: bool) -> bool:
        if not lost:
            return True
        with self._lock:
            now = self.clock.now()
            before = self._quota if now - self._last_lost > PATIENCE else self._left
            self._left, self._last_lost = max(0, before - LOST), now
            return self._left > 0

    def _answered(self) -> None:
        with self._lock:
            self._left = min(self._quota, self._left + ANSWERED)


# Where S3 and DynamoDB are: one value, which makes boto3's sessions and clients.

_SERVER = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::\d{1,5})?/?")


@dataclass(frozen=True, slots=True)
class AwsTarget:
    """Where S3 and DynamoDB are, and which profile has the keys; what is None is as boto3 finds it.

    Parameters
    ----------
    endpoint_url
        The server of both, if it is not Amazon's own. It is not shown, as one that is not checked may have a password.
    profile
        The AWS profile that has the keys, which are never part of this value.
    """

    region: str | None = None
    endpoint_url: str | None = field(default=None, repr=False)
    profile: str | None = None

    @property
    def given(self) -> dict[str, Any]:
        """Its parts as `sleeper_nb.connect` takes them, without those that are None."""
        parts = {"region": self.region, "endpoint_url": self.endpoint_url, "profile": self.profile}
        return {name: value for name, value in parts.items() if value is not None}

    @property
    def options(self) -> str:
        """Its parts as options of a command, each after a blank, to be copied."""
        return "".join(f" --{name.replace('_', '-')} {shlex.quote(value)}" for name, value in self.given.items())

    @property
    def arguments(self) -> str:
        return "".join(f", {name}={value!r}" for name, value in self.given.items())

    def updated(self, other: AwsTarget) -> AwsTarget:
        """Return the same with the parts that another one has."""
        return replace(self, **other.given)

    def here(self, machine: str) -> AwsTarget:
        """Return the same without a profile of another machine, which has keys and profiles of its own."""
        if self.profile is None or (machine == platform.node() and self.profile in _profiles()):
            return self
        logger.info("the AWS profile %s is of another machine: using the credentials of this one", self.profile)
        return replace(self, profile=None)

    def session(self) -> boto3.Session:
        """Return a session of boto3 with the keys and the region.

        ``AWS_REGION``, which boto3 does not read, is the region where nothing else names one.

        `InvalidInput` when the profile does not exist, naming those that do.
        """
        import boto3
        from botocore.exceptions import ProfileNotFound

        try:
            found = boto3.Session(profile_name=self.profile, region_name=self.region)
        except ProfileNotFound as error:
            if self.profile is None:
                raise  # AWS_PROFILE names it
            others = ", ".join(sorted(_profiles())) or "none"
            hint = f"profiles of this machine: {others}; aws configure --profile {self.profile} makes it"
            raise InvalidInput(f"no AWS profile {self.profile!r}", hint=hint) from error
        if found.region_name is None and (elsewhere := os.environ.get("AWS_REGION")):
            return boto3.Session(profile_name=self.profile, region_name=elsewhere)
        return found

    def keys(self, session: boto3.Session) -> Any:
        """Return the credentials that boto3 finds; None where there are none.

        `StorageError` when they cannot be read; what was read, which may have a secret, is in no text of the error.
        """
        from botocore.exceptions import BotoCoreError

        try:
            return session.get_credentials()
        except BotoCoreError:
            raise
        except (AttributeError, LookupError, OSError, TypeError, ValueError) as error:
            name = self.profile or session.profile_name
            hint = (
                "a credential_process must exist, and print one JSON object with Version, AccessKeyId, SecretAccessKey"
            )
            message = f"the AWS profile {name!r} gives no keys that can be read ({type(error).__name__})"
            raise StorageError(message, hint=hint) from None

    def client(self, session: boto3.Session, service: str, **options: Any) -> Any:
        """Return boto3's client of a service, at a server whose address has nothing that may be a secret.

        `InvalidInput`, `StorageError`: as `check_server` and `keys`.
        """
        from botocore.exceptions import BotoCoreError

        self.keys(session)
        try:
            made = session.client(service, endpoint_url=self.endpoint_url, **options)
        except BotoCoreError:
            raise
        except ValueError:  # its text has the address
            _refuse_server()
        check_server(made.meta.endpoint_url)
        return made


def check_server(url: str | None) -> None:
    """Raise `InvalidInput` for an address that has more than a scheme, a host and a port; it is not repeated."""
    if url is None:
        return
    if may_have_keys(url):
        hint = "leave out what is before @; keys come from the environment or an AWS profile"
        raise InvalidInput("endpoint_url must not contain a user name or a password", hint=hint)
    if not _SERVER.fullmatch(unicodedata.normalize("NFKC", url)):
        _refuse_server()


def may_have_keys(address: str) -> bool:
    """Return whether an address has an ``@``, also one of other scripts."""
    return "@" in unicodedata.normalize("NFKC", address)


def _refuse_server() -> NoReturn:
    hint = "write http://host:port or https://host, without a path or query, as endpoint_url or in the AWS settings"
    raise InvalidInput("endpoint_url is not a valid address of a server", hint=hint) from None


def _profiles() -> list[str]:
    import botocore.session

    return list(botocore.session.Session().available_profiles)


AS_BOTO3_FINDS_IT = AwsTarget()
"""Nothing is given."""
