//! Every bound of the report, named once.

/// LIMIT: the widest field and the longest precision that `printf` honours; wider ones are cut to this, so that
/// a format cannot ask for unbounded memory.
pub(super) const PRINTF_WIDTH_MAX: usize = 4096;

/// Columns of a histogram's bar, as bpftrace draws it.
pub(super) const BAR_COLUMNS: usize = 52;
