//! Wireshark's questions to programs that capture (extcap): lines of text, each a word and values in braces.
//!
//! Source: Wireshark's doc/README.extcap and extcap(4). Wireshark calls programs in its folder for them; docs/capture.md has the one that calls this.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::anyhow;
use weir_capture::live;
use weir_pcap_filter::LinkType;
use weir_source::SourceFile;

use crate::args::capture::Capture as Args;
use crate::capture::filters::Expression;
use crate::failure::{Failure, Report as _};
use crate::pcap;
use crate::print::print;

/// Before the names of interfaces, so that they are not those that Wireshark captures at by itself.
const PREFIX: &str = "weir-";

/// The interface's name on this machine.
pub(super) fn real_name(interface: &str) -> &str {
    interface.strip_prefix(PREFIX).unwrap_or(interface)
}

/// Answers, if this is a question, and not a capture.
pub(super) fn answer(args: &Args) -> Result<Option<ExitCode>, Failure> {
    let extcap = &args.extcap;
    if extcap.extcap_interfaces {
        return print(&interfaces()?).map(Some);
    }
    let Some(interface) = extcap.extcap_interface.as_deref().filter(|_| !extcap.capture) else {
        return Ok(None);
    };
    if extcap.extcap_dlts {
        return print(&link_types(real_name(interface))?).map(Some);
    }
    if extcap.extcap_config {
        return print(CONFIG).map(Some);
    }
    match &extcap.extcap_capture_filter {
        Some(filter) => print(&fault(args, filter)?).map(Some),
        None => Err(Failure::Usage(anyhow!(
            "--extcap-interface needs --extcap-dlts, --extcap-config, --extcap-capture-filter or --capture"
        ))),
    }
}

fn interfaces() -> Result<String, Failure> {
    let listed =
        live::list().map_err(|error| Failure::Machine(anyhow!(error).context("listing interfaces")))?;
    let mut text = format!("extcap {{version={}}}{{display=weir}}\n", env!("CARGO_PKG_VERSION"));
    for interface in listed.iter().filter(|interface| interface.is_up) {
        let name = &interface.name;
        // SANITY: writing to memory does not fail.
        writeln!(text, "interface {{value={PREFIX}{name}}}{{display=weir: {name}}}").expect("memory");
    }
    Ok(text)
}

fn link_types(interface: &str) -> Result<String, Failure> {
    let number = live::link_type(interface).map_err(|error| super::failure(error, None))?;
    let link_type = LinkType::of_file(number);
    Ok(format!("dlt {{number={number}}}{{name={}}}{{display={}}}\n", link_type.name(), link_type.about()))
}

const CONFIG: &str = "\
arg {number=0}{call=--filter}{display=Filter}{type=string}{tooltip=Which packets are kept: pcap-filter(7)}
arg {number=1}{call=--snapshot-length}{display=Snapshot length}{type=unsigned}{range=0,262144}{default=262144}{tooltip=Bytes that are kept of a packet at most}
arg {number=2}{call=--no-promiscuous-mode}{display=Without promiscuous mode}{type=boolflag}{default=false}{tooltip=Packets to and from this machine alone}
";

/// What is wrong with a filter; nothing if it is right.
fn fault(args: &Args, filter: &str) -> Result<String, Failure> {
    let names = pcap::system_names(&args.names)?;
    let interface = args.extcap.extcap_interface.as_deref().unwrap_or_default();
    let number = live::link_type(real_name(interface)).map_err(|error| super::failure(error, None))?;
    let expression = Expression::new(filter, args, &names);
    match expression.and_then(|expression| expression.compiled(LinkType::of_file(number))) {
        Ok(_) => Ok(String::new()),
        Err(failure) => {
            let source = SourceFile { name: "<filter>".to_owned(), text: filter.to_owned() };
            Ok(failure.message(Some(&source)))
        }
    }
}
