//! Any bytes as an expression of pcap-filter(7), for the link type and the mode that their first byte says: faults at places of the text, or a filter
//! whose programs do what its graph says.

use weir_cbpf::Machine;
use weir_pcap_filter::{LinkType, Mode, NoNames, Options, compile};
use weir_verifier::Limits;

/// Those whose headers differ most.
const LINK_TYPES: [LinkType; 8] = [
    LinkType::EN10MB,
    LinkType::IEEE802_11_RADIO,
    LinkType::LINUX_SLL,
    LinkType::RAW,
    LinkType::PFLOG,
    LinkType::SUNATM,
    LinkType::MTP2,
    LinkType::C_HDLC,
];

/// Longer programs cost the verifier time, which other targets are about.
const VERIFIED_INSNS_MAX: usize = 600;

/// Reads bytes as an expression.
pub fn read(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let link_type = LINK_TYPES[usize::from(*first) % LINK_TYPES.len()];
    let mode = if *first < 0x80 { Mode::Compat } else { Mode::Scoped };
    let options = Options { link_type, snaplen: 96, netmask: Some(0xffff_ff00), mode };
    let filter = match compile(text, &options, &NoNames) {
        Ok(filter) => filter,
        Err(faults) => {
            assert!(!faults.is_empty(), "a refusal says why");
            for fault in faults {
                let (start, end) = (fault.span.start as usize, fault.span.end as usize);
                assert!(text.get(start..end).is_some(), "{start}..{end} is no place of `{text}`");
            }
            return;
        }
    };
    // The expression is a packet as good as any.
    let packet = &bytes[..bytes.len().min(128)];
    // Classic programs of scoped filters are as good on whole packets alone.
    let wire_bytes = if mode == Mode::Compat { 128 } else { packet.len() as u32 };
    let expected = filter.evaluate(packet, wire_bytes);
    if let Ok(insns) = filter.classic() {
        let program = weir_cbpf::check(&insns, Machine::Userland).expect("what is compiled is a program");
        let returned = weir_cbpf::run(&program, packet, wire_bytes, None).unwrap_or(0);
        // It knows no context.
        assert!(filter.asks_context() || returned == expected, "{text}: {returned}, not {expected}");
    }
    let Ok(program) = filter.program("filter") else { return };
    if program.insns.len() <= VERIFIED_INSNS_MAX {
        let verified = weir_verifier::verify(&program, &[], &Limits::default());
        verified.unwrap_or_else(|rejection| panic!("{text}: {rejection}"));
    }
}
