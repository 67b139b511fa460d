//! Packet filters as a C program sees them.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::null;

use testkit::packets;
use testkit::random::Source;
use testkit::socket_filter::Pair;
use weir_capi::*;

const EN10MB: c_int = 1;
const SCOPED: c_int = 1;

fn error() -> String {
    // SAFETY: the library answers a string.
    unsafe { CStr::from_ptr(weir_bpf_error()) }.to_str().unwrap().to_owned()
}

/// A filter, freed at the end.
struct Compiled(*mut Filter);

impl Compiled {
    fn of(text: &str, link_type: c_int, options: Option<&PcapOptions>) -> Result<Compiled, String> {
        let text = CString::new(text).unwrap();
        // SAFETY: a string, and the struct or NULL.
        let filter = unsafe {
            weir_pcap_compile(text.as_ptr(), link_type, options.map_or(null(), std::ptr::from_ref))
        };
        if filter.is_null() { Err(error()) } else { Ok(Compiled(filter)) }
    }

    fn matches(&self, packet: &[u8], length: u32) -> u32 {
        // SAFETY: it was compiled; as many bytes as are said.
        unsafe { weir_pcap_match(self.0, packet.as_ptr().cast(), packet.len(), length) }
    }

    fn classic(&self, room: usize) -> (i64, Vec<[u8; 8]>) {
        let mut insns = vec![[0; 8]; room];
        // SAFETY: it was compiled; there is as much room as is said.
        let count = unsafe { weir_pcap_classic(self.0, insns.as_mut_ptr().cast::<c_void>(), room) };
        (count, insns)
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        // SAFETY: it was compiled, and goes once.
        unsafe { weir_pcap_free(self.0) };
    }
}

fn tcp_port_80() -> Vec<u8> {
    let source = &mut Source::new(1);
    let payload = packets::tcp_port_80(source);
    packets::link(EN10MB).carrying(source, &payload).expect("Ethernet carries IP")
}

#[test]
fn packets_match_with_what_is_to_be_kept_of_them() {
    let packet = tcp_port_80();
    let length = packet.len() as u32;
    let filter = Compiled::of("tcp port http", EN10MB, None).expect("compiles");
    assert_eq!(filter.matches(&packet, length), 262_144);
    assert_eq!(filter.matches(&packet[..30], length), 0, "the ports were not captured");
    assert_eq!(filter.matches(&[], length), 0);
    assert_eq!(Compiled::of("tcp port 81", EN10MB, None).unwrap().matches(&packet, length), 0);
    assert_eq!(Compiled::of("", EN10MB, None).unwrap().matches(&[], 0), 262_144, "everything");
    let options = PcapOptions { size: size_of::<PcapOptions>(), snaplen: 96, netmask: 0, mode: SCOPED };
    let text = "ip[100000] = 1 or tcp";
    assert_eq!(Compiled::of(text, EN10MB, Some(&options)).unwrap().matches(&packet, length), 96);
    assert_eq!(Compiled::of(text, EN10MB, None).unwrap().matches(&packet, length), 0, "libpcap's meaning");
}

#[test]
fn classic_instructions_are_what_the_kernel_takes() {
    let packet = tcp_port_80();
    let filter = Compiled::of("tcp port 80", EN10MB, None).expect("compiles");
    let (count, first) = filter.classic(1);
    assert_eq!(count, 20, "as tcpdump -d prints it");
    let (again, insns) = filter.classic(40);
    assert_eq!((again, &insns[..1]), (20, &first[..]));
    let pair = Pair::new().expect("sockets");
    pair.attach(&insns[..20]).expect("the kernel takes it");
    assert_eq!(pair.deliver(&packet).expect("sent"), Some(packet.len()));
    assert_eq!(pair.deliver(&[0; 60]).expect("sent"), None);
}

#[test]
fn what_is_refused_has_a_place_and_a_reason() {
    let refused = |text: &str, link_type, options: Option<&PcapOptions>| {
        Compiled::of(text, link_type, options).err().unwrap_or_else(|| panic!("{text}"))
    };
    let said = refused("tcp prt 80", EN10MB, None);
    assert!(said.contains("at byte 4: syntax error"), "{said}");
    assert!(refused("ip broadcast", EN10MB, None).contains("netmask"), "{said}");
    assert!(refused("tcp", 70_000, None).contains("70000 is no link type"));
    assert!(refused("tcp", 300, None).contains("no filtering for link type"), "{}", error());
    let options = PcapOptions { size: 4, snaplen: 0, netmask: 0, mode: 0 };
    assert!(refused("tcp", EN10MB, Some(&options)).contains("sizeof(struct weir_pcap_options)"));
    let options = PcapOptions { size: size_of::<PcapOptions>(), snaplen: 0, netmask: 0, mode: 7 };
    assert!(refused("tcp", EN10MB, Some(&options)).contains("7 is no mode"));
    let known = PcapOptions { size: size_of::<PcapOptions>(), snaplen: 0, netmask: 0xffff_ff00, mode: 0 };
    assert!(Compiled::of("ip broadcast", EN10MB, Some(&known)).is_ok(), "{}", error());
    // SAFETY: what the header allows.
    unsafe {
        assert!(weir_pcap_compile(null(), EN10MB, null()).is_null());
        assert_eq!(weir_pcap_match(null(), null(), 0, 0), 0);
        assert_eq!(weir_pcap_classic(null(), std::ptr::null_mut(), 0), -22);
        weir_pcap_free(std::ptr::null_mut());
    }
}
