//! A running DPDK application, as a source: weir-dpdk-source's packets in weir-capture's words.
//!
//! Each port is an interface. The application filters, and keeps no more than is asked for; so what comes here is written.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use weir_capture::{Counts, Drained, Error, Filtered, Flow, Record, Source, Take};
use weir_dpdk_source::{
    Application, Capture, Counters, Direction, Flags, Options, Packet, Port, Selection, State, limits,
};
use weir_pcap_filter::Mode;
use weir_pcapng::{Filter, Hash, HashAlgorithm, Interface, PacketFlags, Speed};

use crate::args::capture::Capture as Args;
use crate::capture::filters::Expression;

/// LIMIT: how long the plugin takes to register its commands.
const REGISTERED_MAX: Duration = Duration::from_secs(5);
/// LIMIT: records that are given at once.
const RECORDS_MAX: u64 = 8192;
/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;

/// The ports that are captured at.
pub(super) struct Dpdk {
    capture: Capture,
    interfaces: Vec<Interface>,
    is_described: bool,
    /// Nobody says when there is something in a ring: it is looked at again and again.
    timer: TimerFd,
}

impl Dpdk {
    /// Begins to capture.
    pub(super) fn start(text: &str, args: &Args, filter: Option<&Expression<'_>>) -> Result<Dpdk, Error> {
        let selection = Selection::of(text);
        if args.mode == Mode::Compat && filter.is_some_and(Expression::asks_system) {
            return Err(Error::Limit(
                "a filter with inbound, outbound or ifindex keeps no packet of a DPDK application in libpcap's meaning: use \
                 --mode scoped, where inbound and outbound are known"
                    .to_owned(),
            ));
        }
        let program = filter.map(|filter| filter.ebpf(ETHERNET)).transpose();
        let program = program.map_err(|error| Error::Filter { link_type: ETHERNET, error })?;
        let options = Options {
            program: program.unwrap_or_default(),
            snaplen: args.snaplen(),
            ring_bytes: args.buffer,
            has_ids: args.packet_ids || args.latency,
            ..Options::default()
        };
        let application = Application::find(&selection.prefix).map_err(source)?;
        if let Some(plugin) = &args.load {
            load(&application, plugin.as_deref()).map_err(Error::Source)?;
        }
        let description = format!("{}, {}", selection.prefix, application.version);
        let ports = selection.choose(application.ports().map_err(source)?).map_err(source)?;
        let interface =
            |port: &Port| interface(port, &description, args.snaplen(), filter.map(Expression::text));
        let interfaces = ports.iter().map(interface).collect();
        let capture = Capture::start(application, ports, &options).map_err(source)?;
        let timer = timer().map_err(|errno| Error::Source(Box::new(errno)))?;
        Ok(Dpdk { capture, interfaces, is_described: false, timer })
    }

    /// Of the ports.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.interfaces.iter().filter_map(|interface| interface.name.as_deref())
    }
}

impl Source for Dpdk {
    fn drain(&mut self, take: &mut dyn Take) -> Result<Drained, Error> {
        if !self.is_described {
            self.is_described = true;
            self.interfaces.iter().try_for_each(|interface| take.interface(interface, Filtered::Yes))?;
        }
        let mut given = 0;
        let mut taken = Ok(Flow::More);
        let mut emit = |packet: &Packet<'_>| {
            given += 1;
            taken = record(packet, take);
            given < RECORDS_MAX && matches!(taken, Ok(Flow::More))
        };
        let (all, state) = self.capture.poll(&mut emit).map_err(source)?;
        let is_cut_short = taken? == Flow::Pause || given == RECORDS_MAX;
        Ok(match state {
            _ if is_cut_short => Drained::More,
            State::Running => {
                // It says how often the time has passed; a wait begins anew.
                let _ = self.timer.wait();
                Drained::Idle
            }
            _ if all > 0 => Drained::More,
            State::Stopped => Drained::Ended,
            State::Gone => return Err(source(weir_dpdk_source::Error::Gone)),
        })
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.timer.as_fd()]
    }

    fn counts(&mut self) -> Result<Vec<Counts>, Error> {
        let mut sums = vec![Counters::default(); self.interfaces.len()];
        for (port, _, counters) in self.capture.counters() {
            let sum = &mut sums[port];
            sum.received += counters.received;
            sum.filtered += counters.filtered;
            sum.dropped += counters.dropped;
        }
        let counts = |sum: &Counters| Counts {
            received: Some(sum.received),
            interface_dropped: None,
            // While it runs, one may be ahead of the other.
            accepted: Some(sum.received.saturating_sub(sum.filtered)),
            os_dropped: Some(sum.dropped),
            of_file: None,
        };
        Ok(sums.iter().map(counts).collect())
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.capture.stop().map(|_| ()).map_err(source)
    }
}

/// Has an application load the plugin, if it has not. The plugin then registers its commands.
fn load(
    application: &Application,
    plugin: Option<&Path>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let is_missing = || matches!(application.plugin(), Err(weir_dpdk_source::Error::NoPlugin));
    if !is_missing() {
        return Ok(());
    }
    let process = application.process().ok_or("--load: the application is in another PID namespace")?;
    let plugin = plugin.map_or_else(beside_weir, |path| Ok(path.to_owned()))?;
    weir_probe::load_library(process, &plugin, &Application::is_idle_thread)?;
    let began = Instant::now();
    while is_missing() {
        if began.elapsed() > REGISTERED_MAX {
            return Err(format!(
                "{} is loaded, but registers no command: is it libweir_dpdk.so?",
                plugin.display()
            )
            .into());
        }
        std::thread::sleep(limits::POLL_INTERVAL);
    }
    Ok(())
}

/// Where a package, and where Cargo, put the plugin.
fn beside_weir() -> Result<PathBuf, String> {
    let weir = std::env::current_exe().map_err(|error| format!("--load: where weir is: {error}"))?;
    let folder = weir.parent().unwrap_or(Path::new("/"));
    let places = ["libweir_dpdk.so", "../lib/weir/libweir_dpdk.so"].map(|place| folder.join(place));
    let found = places.iter().find(|place| place.exists()).cloned();
    let [one, other] = places.each_ref().map(|place| place.display().to_string());
    found.ok_or_else(|| format!("--load: neither {one} nor {other} is there: name it with --load=PATH"))
}

fn interface(port: &Port, description: &str, snaplen: u32, filter: Option<&str>) -> Interface {
    Interface {
        name: Some(port.name.clone()),
        description: Some(format!("port {} of the DPDK application {description}", port.number)),
        mac: port.mac.filter(|mac| *mac != [0; 6]),
        speed: port.speed.map(Speed::Both),
        filter: filter.map(|text| Filter::Text(text.to_owned())),
        ..Interface::new(ETHERNET, snaplen)
    }
}

fn record(packet: &Packet<'_>, take: &mut dyn Take) -> Result<Flow, Error> {
    let direction = match packet.direction {
        Direction::Rx => weir_pcapng::Direction::Inbound,
        Direction::Tx => weir_pcapng::Direction::Outbound,
    };
    let mut flags = PacketFlags::from_bits(0).with_direction(direction);
    for (flag, with) in [
        (Flags::CHECKSUM_NOT_READY, PacketFlags::and_checksum_not_ready as fn(PacketFlags) -> PacketFlags),
        (Flags::CHECKSUM_GOOD, PacketFlags::and_checksum_valid),
        (Flags::SEGMENTED, PacketFlags::and_segmentation_offloaded),
    ] {
        if packet.flags.contains(flag) {
            flags = with(flags);
        }
    }
    let hash = packet.hash.map(u32::to_le_bytes);
    let hash = hash.as_ref().map(|bytes| Hash { algorithm: HashAlgorithm::Toeplitz, bytes });
    take.record(&Record {
        flags: Some(flags),
        hash,
        queue: Some(u32::from(packet.queue)),
        packet_id: packet.id,
        drops: u64::from(packet.dropped),
        // What an application wrote may say less.
        ..Record::new(packet.port, packet.ns, packet.wire_bytes.max(packet.bytes.len() as u32), packet.bytes)
    })
}

/// Readable every [`limits::POLL_INTERVAL`].
fn timer() -> nix::Result<TimerFd> {
    let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
    let interval = Expiration::Interval(TimeSpec::from_duration(limits::POLL_INTERVAL));
    timer.set(interval, TimerSetTimeFlags::empty())?;
    Ok(timer)
}

fn source(error: weir_dpdk_source::Error) -> Error {
    Error::Source(Box::new(error))
}
