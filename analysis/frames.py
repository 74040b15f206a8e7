"""pandas without types: it has no stubs, and what type checkers infer from its code is wrong."""

from __future__ import annotations

from typing import Any, TypeAlias

DataFrame: TypeAlias = Any
Series: TypeAlias = Any


class _Pandas:
    """Imported when it is first used: a simulation, even with its report, takes less time than this import."""

    def __getattr__(self, name: str) -> Any:
        import pandas

        return getattr(pandas, name)


pandas: Any = _Pandas()
