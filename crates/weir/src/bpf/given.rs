//! What `weir bpf run` gives a program: memory, a packet, or the registers of a probe.

use weir_ebpf::{ProgramKind, context};
use weir_rt::executable::Frame;
use weir_rt::{Context, ContextMut};

use crate::failure::Failure;

/// What r1 leads to.
#[derive(Debug)]
pub(super) enum Given {
    Registers(Frame),
    Lent(Context),
}

impl Given {
    /// For a program of `kind`; `bytes`: what the user gave.
    pub(super) fn of(kind: ProgramKind, bytes: Option<&[u8]>) -> Result<Given, Failure> {
        match kind {
            kind if kind.is_probe() => registers(kind, bytes.unwrap_or_default()).map(Given::Registers),
            ProgramKind::Memory { bytes: wanted } => match bytes {
                Some(bytes) if bytes.len() != wanted as usize => Err(super::refused(&format!(
                    "the program is written for {wanted} bytes of memory, and gets {}",
                    bytes.len()
                ))),
                Some(bytes) => Ok(Given::Lent(Context::memory(bytes))),
                None => Ok(Given::Lent(Context::memory(&vec![0; zeros(wanted)?]))),
            },
            kind => {
                let context = Context::received(kind, bytes.unwrap_or_default());
                // SANITY: these are the kinds that packets are received for.
                Ok(Given::Lent(context.expect("a kind of packets")))
            }
        }
    }

    pub(super) fn context(&mut self) -> ContextMut<'_> {
        match self {
            Given::Registers(frame) => frame.into(),
            Given::Lent(context) => context.into(),
        }
    }
}

/// The first registers of a `pt_regs`, and the floating-point arguments behind them; the others are 0.
fn registers(kind: ProgramKind, bytes: &[u8]) -> Result<Frame, Failure> {
    let most = context::structure_bytes(kind);
    if bytes.len() > most as usize {
        return Err(super::refused(&format!(
            "{} bytes are more than the {most} of the context that the program gets",
            bytes.len(),
        )));
    }
    let mut frame = Frame::default();
    for (slot, bytes) in frame.regs.iter_mut().chain(&mut frame.floats).zip(bytes.chunks(8)) {
        *slot = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    Ok(frame)
}

/// So many bytes of zeros, as far as a program can be lent.
fn zeros(bytes: u32) -> Result<usize, Failure> {
    let limit = weir_rt::limits::LENT_BYTES_MAX;
    match bytes <= limit {
        true => Ok(bytes as usize),
        false => Err(super::refused(&format!("{bytes} bytes of memory; the limit is {limit}"))),
    }
}
