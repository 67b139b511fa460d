//! `weir pcap eval`: a capture file → what a filter returns for each packet, a line each.
//!
//! Values are printed all at once for what has been read, before more is read: nothing waits in a buffer while a capture that
//! comes through a pipe has no packets. An expression is compiled once for each link type of the file.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::{Context as _, anyhow};
use weir_ebpf::Program;
use weir_pcap_filter::{Facts, LinkType};
use weir_pcapng::{Direction, Event, PacketFlags, Reader};

use crate::args::pcap::Eval;
use crate::failure::Failure;
use crate::pcap::Asked;
use crate::pcap::engine::Ready;
use crate::print::print_bytes_on;

/// Runs an expression on every packet.
pub(super) fn expression(args: &Eval, text: &str, asked: &Asked<'_>) -> Result<ExitCode, Failure> {
    // Syntax errors are reported before the file is opened.
    weir_pcap_filter::parse(text, asked.given.mode).map_err(|fault| Failure::Script(vec![fault]))?;
    let mut compile = |link_type| asked.ready(text, link_type, args.engine);
    let filters = match args.given.link_type {
        Some(link_type) => Filters::One(compile(link_type)?),
        None => Filters::Each { compile: &mut compile, ready: Vec::new(), interfaces: Vec::new() },
    };
    run(&args.file, filters)
}

/// Runs a program on every packet.
pub(super) fn program(args: &Eval, program: Program) -> Result<ExitCode, Failure> {
    run(&args.file, Filters::One(Ready::of(program, false, args.engine)?))
}

/// Which filter a packet goes through.
enum Filters<'a> {
    One(Ready),
    /// That of its interface's link type.
    Each {
        compile: &'a mut dyn FnMut(LinkType) -> Result<Ready, Failure>,
        ready: Vec<(LinkType, Ready)>,
        /// The number of the filter in `ready`.
        interfaces: Vec<usize>,
    },
}

impl Filters<'_> {
    fn add_interface(&mut self, index: usize, link_type: LinkType) -> Result<(), Failure> {
        let Filters::Each { compile, ready, interfaces } = self else { return Ok(()) };
        let found = ready.iter().position(|(known, _)| *known == link_type);
        let filter = match found {
            Some(filter) => filter,
            None => {
                ready.push((link_type, compile(link_type)?));
                ready.len() - 1
            }
        };
        // They are numbered from 0 again in each section.
        interfaces.truncate(index);
        interfaces.push(filter);
        Ok(())
    }

    fn of(&self, interface: usize) -> &Ready {
        match self {
            Filters::One(ready) => ready,
            Filters::Each { ready, interfaces, .. } => &ready[interfaces[interface]].1,
        }
    }
}

fn run(path: &Path, mut filters: Filters<'_>) -> Result<ExitCode, Failure> {
    let name = if path == Path::new("-") { "<stdin>".into() } else { path.display().to_string() };
    let file = input(path).with_context(|| format!("cannot read {name}")).map_err(Failure::Refused)?;
    let values = Rc::new(RefCell::new(Values::default()));
    let input = Flushing { input: file, values: values.clone() };
    let done = Reader::new(input)
        .map_err(|error| of_file(&name, &error))
        .and_then(|reader| packets(reader, &mut filters, &values, &name));
    // What was said of whole packets comes before the error.
    let mut values = values.borrow_mut();
    values.flush();
    match values.failure.take() {
        Some(failure) => Err(failure),
        None => done.map(|()| ExitCode::SUCCESS),
    }
}

fn packets(
    mut reader: Reader<Flushing>,
    filters: &mut Filters<'_>,
    values: &RefCell<Values>,
    name: &str,
) -> Result<(), Failure> {
    while let Some(event) = reader.next().map_err(|error| of_file(name, &error))? {
        match event {
            Event::Interface(id, interface) => {
                filters.add_interface(id.index(), LinkType::of_file(interface.link_type))?;
            }
            Event::Packet(packet) => {
                let filter = filters.of(packet.interface.index());
                let facts =
                    filter.asks_context().then(|| facts(packet.fields.flags(), packet.fields.queue()));
                let value = filter.run(packet.bytes, packet.wire_len, facts)?;
                values.borrow_mut().push(value);
            }
            _ => {}
        }
    }
    Ok(())
}

/// `PACKET_OUTGOING`, and a type that is neither received nor sent.
pub(crate) const OUTGOING: u32 = 4;
const UNKNOWN: u32 = 0xff;

/// What the file says of a packet, as filters ask for it.
pub(crate) fn facts(flags: Option<PacketFlags>, queue: Option<u32>) -> Facts {
    let packet_type = match flags.map_or(Direction::Unknown, PacketFlags::direction) {
        Direction::Inbound => 0,
        Direction::Outbound => OUTGOING,
        Direction::Unknown => UNKNOWN,
    };
    // The kernel has one more than the number, of 16 bits, and 0 where it is not known.
    let mapping = queue.and_then(|queue| u16::try_from(queue.checked_add(1)?).ok());
    let queue_mapping = mapping.unwrap_or(0).into();
    Facts { packet_type, queue_mapping, ..Facts::default() }
}

fn of_file(name: &str, error: &weir_pcapng::Error) -> Failure {
    // Its text has that of its cause.
    Failure::Refused(anyhow!("{name}: {error}"))
}

/// A file, or standard input for `-`.
pub(super) fn input(path: &Path) -> io::Result<Box<dyn Read>> {
    Ok(match path == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path)?),
    })
}

/// Values that are not printed yet.
#[derive(Default)]
struct Values {
    text: Vec<u8>,
    /// Why they cannot be.
    failure: Option<Failure>,
}

impl Values {
    fn push(&mut self, value: u32) {
        // SANITY: writing to memory does not fail.
        writeln!(self.text, "{value}").expect("memory");
    }

    fn flush(&mut self) {
        if self.failure.is_none() {
            self.failure = match print_bytes_on(&self.text) {
                Ok(true) => None,
                Ok(false) => Some(Failure::ReaderGone),
                Err(failure) => Some(failure),
            };
        }
        self.text.clear();
    }
}

/// An input that prints the values there are before it is read.
struct Flushing {
    input: Box<dyn Read>,
    values: Rc<RefCell<Values>>,
}

impl Read for Flushing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut values = self.values.borrow_mut();
        if !values.text.is_empty() {
            values.flush();
        }
        match values.failure {
            // `run` says why.
            Some(_) => Err(io::ErrorKind::BrokenPipe.into()),
            None => self.input.read(buffer),
        }
    }
}
