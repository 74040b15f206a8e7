"""pandas without types: it has no stubs, and what type checkers infer from its code is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as _pandas

pandas: Any = _pandas
if TYPE_CHECKING:
    DataFrame: TypeAlias = Any
    Series: TypeAlias = Any
else:
    DataFrame, Series = _pandas.DataFrame, _pandas.Series

__all__ = ["DataFrame", "Series", "pandas"]
