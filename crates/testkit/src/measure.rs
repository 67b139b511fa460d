//! What a test measures and does not judge: seldom, where nothing asks for it, so that it is known to run; in full where
//! `WEIR_MEASURE` is set.

/// Whether `WEIR_MEASURE` asks for figures.
pub fn is_asked() -> bool {
    std::env::var_os("WEIR_MEASURE").is_some()
}

/// How often something is measured: so often in `full`, twice where nothing asks for figures.
pub fn rounds(full: usize) -> usize {
    if is_asked() { full } else { full.min(2) }
}
