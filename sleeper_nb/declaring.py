"""`Declaring`: tables as a file declares them, and what an instance says of itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sleeper_nb.administration import Administration
from sleeper_nb.arguments import checked
from sleeper_nb.model.properties import INSTANCE_PROPERTIES
from sleeper_nb.operations.administration import applying, property_listing
from sleeper_nb.operations.administration.declared_file import declarations_of
from sleeper_nb.report import Listing
from sleeper_nb.storage.filesystem import Storage, open_near


class Declaring(Administration):
    """The part of `Session` that compares an instance with what was declared for it."""

    instance: str

    @abstractmethod
    def _check_open(self) -> None:
        """Raise `SessionClosed` when the session was closed."""

    @checked
    def apply(
        self, declared: str | Path | Mapping[str, Any], *, dry_run: bool = False, skip_conflicts: bool = False
    ) -> applying.ApplyReport:
        """Make tables as they are declared: those that are not there, and properties that differ.

        All is checked before anything is changed, and doing it again changes nothing. Tables that are not declared, and
        properties that are not named, are left alone; so are the partitions of a table that is there.

        Parameters
        ----------
        declared
            The path of a TOML file, or what it would say: ``{"tables": {"trips": {"schema": "city STRING KEY",
            "split-points": ["g"], "properties": {"snapshot.time-retained": "30 d"}}}}``. Instead of ``schema``:
            ``row-keys``, ``sort-keys`` and ``values``, types by names.
        dry_run
            Only return what would be done.
        skip_conflicts
            When a table cannot be as it is declared, leave it alone and do the others.

        Raises
        ------
        InvalidInput
            When the file cannot be read, naming the line; or, without `skip_conflicts`, when a table cannot be as it is
            declared: its schema differs, for instance. Nothing is changed then.
        """
        tables = [self.table(entry.name) for entry in self.components.catalog.tables()]
        there = {t.name.casefold(): applying.Existing(t.name, t.schema, t.properties) for t in tables}
        plans = tuple(
            applying.plan(
                each,
                there.get(each.name.casefold()),
                lambda new: self._checked(new.name, new.schema, new.split_points, None, new.properties),
                lambda old, settings: self._check_fit(old.schema, settings),
            )
            for each in declarations_of(declared)
        )
        if not dry_run and not skip_conflicts:
            applying.check_all_can(plans)
        named = {each.declared.name.casefold() for each in plans}
        for each in () if dry_run else plans:
            new = each.declared
            if each.action == "create":
                self.create_table(new.name, new.schema, new.split_points, properties=new.properties)
            elif each.action == "change":
                self.table(new.name).set_properties(each.changes)
        return applying.ApplyReport(plans, tuple(t.name for t in tables if t.name.casefold() not in named), dry_run)

    def warehouse(self) -> Storage:
        """Return the warehouse that the instance is in: its folder, or the bucket's prefix."""
        return open_near(self._storage.root.removesuffix(f"/{self.instance}"), self._storage)

    @checked
    def property_values(self, names: Iterable[str] = ()) -> Listing[property_listing.PropertyValue]:
        """Return properties of the instance, their defaults, and who set them.

        Parameters
        ----------
        names
            Which; when none is named, its own, and the defaults that it sets for its tables.
        """
        return self._told(names, "")

    @checked
    def set_properties(self, changes: Mapping[str, str | None]) -> Listing[property_listing.PropertyValue]:
        """Set properties of the instance, all or none, and return those that were named.

        Other lines of its file ``config/instance.properties`` stay as they are. Defaults of tables count from now on in
        this session, and all else when the warehouse is opened the next time.

        Parameters
        ----------
        changes
            Texts by the names of properties; None unsets one, so that its default counts.

        Raises
        ------
        NotFound
            When no instance has such a property; the nearest is named.
        InvalidInput
            When a value is none of its property. Nothing is changed then.
        """
        self._check_open()
        self.components.property_files.change_instance(changes)
        own = [name for name in changes if name in INSTANCE_PROPERTIES]
        later = f"{', '.join(own)} count{'s' * (len(own) == 1)} when the warehouse is opened the next time"
        return self._told(changes, later if own else "")

    def _told(self, names: Iterable[str], footer: str) -> Listing[property_listing.PropertyValue]:
        self._check_open()
        values = property_listing.instance_values(self.components.property_files.instance, names)
        return property_listing.listing(values, f"properties of instance {self.instance}", footer)
