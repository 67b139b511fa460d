//! Filters, as a capture asks for them.

use weir_cbpf::Program;

use crate::record::Record;

/// Says how much of a packet is kept.
pub trait Classify {
    /// Bytes that are kept of it; 0: it is rejected. All bytes that were captured are shown.
    fn keep(&mut self, record: &Record<'_>) -> u32;
}

/// How the kernel filters packets of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// By this program, which returns how many bytes are kept.
    Decides(Program),
    /// By this program, which keeps whole what the filter accepts, and every packet out of which the kernel has taken a VLAN tag; about the
    /// latter the filter is asked here.
    Sieves(Program),
    /// Not at all.
    Not,
}

/// Has the filter of a capture, for each link type.
pub trait Filters {
    /// The filter as the kernel has it. The kernel does not see VLAN tags that it has taken out of packets; they are put back before a packet
    /// is shown to [`Filters::user`]'s.
    ///
    /// # Errors
    /// If there is no such filter on this link type.
    fn kernel(&self, link_type: u16) -> Result<Kernel, Box<dyn std::error::Error + Send + Sync>>;

    /// The filter in this process, which a capture asks for once: all interfaces of this link type share it.
    ///
    /// # Errors
    /// As [`Filters::kernel`].
    fn user(&self, link_type: u16) -> Result<Box<dyn Classify>, Box<dyn std::error::Error + Send + Sync>>;
}
