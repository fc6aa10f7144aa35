"""The comparing commands: `asc compare`, `mscompare`, `op_validate`, `msprobe`. One engine, four spellings."""
