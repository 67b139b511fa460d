//! One capture: begun, polled, ended.

use std::os::fd::AsRawFd as _;

use weir_packet_ring::limits::{CAPTURED_BYTES_MAX, RING_BYTES_MAX, RING_BYTES_MIN};
use weir_packet_ring::{Counters, Direction, Plan, RingSpec, Segment};

use crate::application::{Application, Port};
use crate::clock::Clock;
use crate::error::Error;
use crate::limits::{RING_BYTES_DEFAULT, WINDOW};
use crate::merge::{Lane, Packet, merge};

/// What is captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The filter: instructions of an eBPF classifier, as they lie in memory; none keeps every packet.
    pub program: Vec<[u8; 8]>,
    /// Bytes that are kept of a packet at most; more than libpcap's 262,144 are that.
    pub snaplen: u32,
    /// Of each queue and direction; rounded up to a power of two.
    pub ring_bytes: u64,
    /// Which directions.
    pub directions: Vec<Direction>,
    /// Packets get numbers by which those that are received are known when they are sent. It writes into the application's packets
    /// (a dynamic field and a dynamic flag of DPDK's).
    pub has_ids: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            program: Vec::new(),
            snaplen: CAPTURED_BYTES_MAX,
            ring_bytes: RING_BYTES_DEFAULT,
            directions: vec![Direction::Rx, Direction::Tx],
            has_ids: false,
        }
    }
}

/// A capture that is running, or has been.
#[derive(Debug)]
pub struct Capture {
    application: Application,
    ports: Vec<Port>,
    segment: Segment,
    lanes: Vec<Lane>,
    clock: Clock,
    state: State,
}

/// Whether more is to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The application runs, and captures.
    Running,
    /// It has ended. What it had captured before is still given.
    Gone,
    /// [`Capture::stop`] was called.
    Stopped,
}

/// How a capture ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// What the plugin said of that; none if the application was gone.
    pub words: Option<String>,
    /// By queue and direction, with the index of the port among those that were captured.
    pub rings: Vec<(usize, RingSpec, Counters)>,
}

impl Capture {
    /// Has `application` capture at these ports.
    ///
    /// # Errors
    /// No plugin, one that refuses, no memory.
    pub fn start(application: Application, ports: Vec<Port>, options: &Options) -> Result<Capture, Error> {
        application.plugin()?;
        let rings = rings(&ports, &options.directions);
        if rings.is_empty() {
            return Err(Error::NoQueues);
        }
        let ring_bytes = options.ring_bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX).next_power_of_two();
        let segment = Segment::create(Plan {
            rings: rings.iter().map(|(_, spec)| *spec).collect(),
            ring_bytes,
            program: options.program.clone(),
            snaplen: options.snaplen.clamp(1, CAPTURED_BYTES_MAX),
            has_ids: options.has_ids,
        });
        let segment = segment.map_err(Error::Segment)?;
        let clock = Clock::start().ok_or(Error::NoClock)?;
        let fd = segment.fd().as_raw_fd();
        application.words(&format!("/weir/start,{},{fd}", std::process::id()))?;
        let lane = |(index, (port, spec)): (usize, &(usize, RingSpec))| {
            Lane::new(*spec, *port, segment.reader(index))
        };
        let lanes = rings.iter().enumerate().map(lane).collect();
        Ok(Capture { application, ports, segment, lanes, clock, state: State::Running })
    }

    /// Ports that are captured; packets name them by their index here.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// The application.
    pub fn application(&self) -> &Application {
        &self.application
    }

    /// Gives the packets that are old enough for no earlier ones to come, until `emit` says false; all there are once the capture has
    /// ended. How many, and whether more may come. To be called every `limits::POLL_INTERVAL`; it does not wait.
    ///
    /// # Errors
    /// [`Error::Corrupt`], once for each ring; the others go on.
    pub fn poll(&mut self, emit: &mut dyn FnMut(&Packet<'_>) -> bool) -> Result<(u64, State), Error> {
        let begun = self.clock.now();
        if self.state == State::Running && self.application.telemetry.is_closed() {
            self.state = State::Gone;
        }
        self.lanes.iter_mut().for_each(Lane::drain);
        // After the packets were taken out, so that all of their times are known.
        self.clock.keep();
        let window = self.clock.ticks_in(WINDOW.as_nanos() as u64).unwrap_or(u64::MAX);
        let until = match self.state {
            State::Running => begun.saturating_sub(window),
            State::Gone | State::Stopped => u64::MAX,
        };
        let given = merge(&mut self.lanes, &self.clock, until, emit);
        if let Some(lane) = self.lanes.iter_mut().find_map(|lane| lane.is_newly_corrupt().then_some(&*lane)) {
            let RingSpec { queue, direction, .. } = lane.spec;
            let port = &self.ports[lane.port].name;
            return Err(Error::Corrupt(format!("{direction} queue {queue} of port {port}")));
        }
        Ok((given, self.state))
    }

    /// Ends it. Packets that were captured before are still to be polled.
    ///
    /// # Errors
    /// Those of the socket. An application that is gone is none.
    pub fn stop(&mut self) -> Result<Ended, Error> {
        let words = match self.state {
            State::Running => match self.application.words("/weir/stop") {
                Ok(words) => Some(words),
                Err(Error::Gone) => None,
                Err(error) => return Err(error),
            },
            State::Gone | State::Stopped => None,
        };
        self.state = if words.is_some() { State::Stopped } else { State::Gone };
        Ok(Ended { words, rings: self.counters() })
    }

    /// What became of packets, by queue and direction.
    pub fn counters(&self) -> Vec<(usize, RingSpec, Counters)> {
        let of = |(index, lane): (usize, &Lane)| (lane.port, lane.spec, self.segment.counters(index));
        self.lanes.iter().enumerate().map(of).collect()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if self.state == State::Running {
            // What is not freed now is when this process has ended: the plugin sees that.
            let _ = self.stop();
        }
    }
}

/// One for each queue, with the index of its port.
fn rings(ports: &[Port], directions: &[Direction]) -> Vec<(usize, RingSpec)> {
    let mut rings = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        for (direction, queues) in [(Direction::Rx, port.rx_queues), (Direction::Tx, port.tx_queues)] {
            if directions.contains(&direction) {
                rings.extend(
                    (0..queues).map(|queue| (index, RingSpec { port: port.number, queue, direction })),
                );
            }
        }
    }
    rings
}
