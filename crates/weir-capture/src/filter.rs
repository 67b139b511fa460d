//! Filters, as a capture asks for them.

use weir_cbpf::Program;

use crate::record::Record;

/// Says how much of a packet is kept.
pub trait Classify {
    /// Bytes that are kept of it; 0: it is rejected. All bytes that were captured are shown.
    fn keep(&mut self, record: &Record<'_>) -> u32;
}

/// Has the filter of a capture, for each link type.
pub trait Filters {
    /// The filter as a program for the kernel, which returns how many bytes are kept. `None`: the kernel cannot evaluate it, or would
    /// see other bytes than are written.
    ///
    /// # Errors
    /// If there is no such filter on this link type.
    fn kernel(&self, link_type: u16) -> Result<Option<Program>, Box<dyn std::error::Error + Send + Sync>>;

    /// The filter in this process.
    ///
    /// # Errors
    /// As [`Filters::kernel`].
    fn user(&self, link_type: u16) -> Result<Box<dyn Classify>, Box<dyn std::error::Error + Send + Sync>>;
}
