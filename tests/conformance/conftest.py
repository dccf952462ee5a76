"""The live cases use the fixture of the live tests."""

from tests.live.conftest import yopp

__all__ = ["yopp"]
