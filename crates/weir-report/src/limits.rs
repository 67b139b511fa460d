//! Every bound of the report, named once.

/// LIMIT: the widest field and the longest precision that `printf` honours; wider ones are cut to this, so that
/// a format cannot ask for unbounded memory.
pub(crate) const PRINTF_WIDTH_MAX: usize = 4096;

/// Columns of a histogram's bar, as bpftrace draws it.
pub(crate) const BAR_COLUMNS: usize = 52;

/// Blanks before a frame of a stack, in a key and in a value, as bpftrace has them.
pub(crate) const KEY_INDENT: usize = 4;
pub(crate) const VALUE_INDENT: usize = 8;
