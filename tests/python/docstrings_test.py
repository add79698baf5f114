"""Every public name says what it is."""

import inspect
import unittest

import snug
from package import PackageTest


def undocumented(owner, name):
    """The members of a class that have no text of their own, by their full names."""
    for member, value in vars(owner).items():
        if member.startswith("_"):
            continue
        if isinstance(value, property) or inspect.isroutine(value) or isinstance(value, (classmethod, staticmethod)):
            text = value.__doc__ if isinstance(value, property) else getattr(owner, member).__doc__
            if not (text or "").strip():
                yield f"{name}.{member}"


class DocstringsTest(PackageTest):
    def test_every_public_name_has_one(self):
        missing, seen = [], 0
        for name in snug.__all__:
            value = getattr(snug, name)
            # A dataclass without a text of its own gets its fields as one.
            text = (value.__doc__ or "").strip()
            if not text or text.startswith(f"{name}("):
                missing.append(name)
            if inspect.isclass(value):
                seen += len(vars(value))
                missing += undocumented(value, name)
        self.assertEqual(missing, [])
        self.assertGreater(seen, 100)

    def test_what_has_none_is_found(self):
        class Two:
            @property
            def told(self):
                """Yes."""

            @property
            def silent(self):
                return 1

            def quiet(self):
                return 2
        self.assertEqual(list(undocumented(Two, "Two")), ["Two.silent", "Two.quiet"])


if __name__ == "__main__":
    unittest.main()
