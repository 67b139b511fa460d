//! Packet filters: text → machine code, and what it says of packets.

use weir_bpf::{Engine, Object, Program};
use weir_pcap_filter::{LinkType, Mode, Options, SNAPLEN_DEFAULT};
use weir_pcap_names::SystemNames;
use weir_source::Diagnostic;

use crate::error::{E2BIG, EINVAL, Error, Result};

/// A compiled expression. Its names do not show in C: `struct weir_pcap_filter`.
#[derive(Debug)]
pub struct Filter {
    source: weir_pcap_filter::Filter,
    program: Program,
}

/// What is asked for, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) link_type: i32,
    pub(crate) snaplen: u32,
    pub(crate) netmask: u32,
    pub(crate) mode: i32,
}

impl Filter {
    pub(crate) fn compile(expression: &str, asked: Asked) -> Result<Filter> {
        let link_type = u16::try_from(asked.link_type)
            .map_err(|_| Error::new(EINVAL, format!("{} is no link type (a DLT_ value)", asked.link_type)))?;
        let mode = match asked.mode {
            0 => Mode::Compat,
            1 => Mode::Scoped,
            other => return Err(Error::new(EINVAL, format!("{other} is no mode (enum weir_pcap_mode)"))),
        };
        let options = Options {
            link_type: LinkType(link_type),
            snaplen: if asked.snaplen == 0 { SNAPLEN_DEFAULT } else { asked.snaplen },
            netmask: (asked.netmask != 0).then_some(asked.netmask),
            mode,
        };
        let source = weir_pcap_filter::compile(expression, &options, &SystemNames::default());
        let source = source.map_err(|faults| Error::new(EINVAL, words(&faults)))?;
        let program = source.program("filter").map_err(|error| Error::new(E2BIG, error.to_string()))?;
        let program = Object::of_program(program)?.load("filter", Engine::Jit)?;
        Ok(Filter { program, source })
    }

    /// Bytes of the packet to keep. Of one that is too long to be lent to a program, the first bytes are looked at.
    pub(crate) fn matches(&self, packet: &[u8], length: u32) -> u32 {
        let lent = packet.len().min(weir_bpf::LENT_BYTES_MAX);
        // SANITY: it is a classifier, which the verifier has accepted, and not too many bytes are lent.
        self.program.classify(&packet[..lent], length).expect("a filter")
    }

    pub(crate) fn classic(&self) -> Result<Vec<[u8; 8]>> {
        let insns = self.source.classic().map_err(|error| Error::new(E2BIG, error.to_string()))?;
        Ok(insns.iter().map(|insn| insn.to_bytes()).collect())
    }
}

fn words(faults: &[Diagnostic]) -> String {
    let word = |fault: &Diagnostic| {
        let hint = fault.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("at byte {}: {}{hint}", fault.span.start, fault.message)
    };
    faults.iter().map(word).collect::<Vec<_>>().join("\n")
}
