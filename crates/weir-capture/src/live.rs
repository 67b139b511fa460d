//! Network interfaces of this machine (AF_PACKET), as a source.
//!
//! Each has a socket with a ring in memory that the kernel fills (TPACKET_V3), with stamps in nanoseconds. Source: packet(7) and the kernel's
//! Documentation/networking/packet_mmap.rst.
//!
//! - No packet comes in that the filter rejects: a socket is bound, and so receives, only after its filter and its ring are in place.
//! - A VLAN tag that the kernel has taken out of a packet is put back, and counts in both lengths.
//! - What the kernel drops for lack of room is said with the next packet.
//! - On the loopback interface each packet is seen as it comes in, not as it goes out as well.
//! - Interfaces whose packets have no header that files know, and all of them together (`any`), have the header of LINKTYPE_LINUX_SLL2.
//!
//! Deliberately not here: which queue a packet was on, which the kernel does not say here; several threads.

mod cooked;
mod device;
mod ring;
mod socket;
mod sys;
mod tag;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Instant;

use weir_pcapng::{Filter, Interface};

use crate::error::Error;
use crate::filter::{Filters, Kernel};
use crate::limits::{END_MS, INTERFACES_MAX, STEP_RECORDS};
use crate::live::device::Device;
use crate::live::socket::Socket;
use crate::source::{Counts, Drained, Filtered, Flow, Source, Take};

pub use crate::live::device::{Listed, link_type, list, os};

/// How interfaces are captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Bytes that are kept of a packet at most.
    pub snaplen: u32,
    /// Bytes of each interface's ring, a multiple of 1 MiB; less is rounded up.
    pub ring_bytes: u64,
    /// Also packets to other machines.
    pub is_promiscuous: bool,
}

/// Who filters packets of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilteredBy {
    /// The kernel.
    Kernel,
    /// The kernel, and this process packets with a VLAN tag.
    Both,
    /// This process.
    Process,
}

/// Interfaces that are captured together.
pub struct Interfaces {
    sockets: Vec<Socket>,
    descriptions: Vec<(Interface, Option<FilteredBy>)>,
    is_described: bool,
    /// When the end was asked for.
    stopped: Option<Instant>,
    /// The interface that has gone, and what the kernel said.
    gone: Option<(usize, io::Error)>,
}

impl Interfaces {
    /// Begins to capture. `filter`: its text, which is said of interfaces, and where its programs come from.
    ///
    /// # Errors
    /// If there is no such interface, the filter is none for its link type, or the kernel refuses: capturing needs CAP_NET_RAW.
    pub fn open(
        names: &[String],
        options: Options,
        filter: Option<(&str, &dyn Filters)>,
    ) -> Result<Interfaces, Error> {
        if names.len() > INTERFACES_MAX {
            return Err(Error::Limit(format!(
                "{} interfaces; {INTERFACES_MAX} can be captured",
                names.len()
            )));
        }
        let mut sockets = Vec::new();
        let mut descriptions = Vec::new();
        for name in names {
            let device = Device::of(name)?;
            let link_type = device.link_type();
            let mut interface = Interface { snaplen: options.snaplen, ..device.described() };
            let (mut program, mut by) = (None, None);
            if let Some((text, filters)) = filter {
                interface.filter = Some(Filter::Text(text.to_owned()));
                let error = |error| Error::Filter { link_type, error };
                // The kernel sees no header that is made here.
                let kernel = match device.is_cooked() {
                    true => Kernel::Not,
                    false => filters.kernel(link_type).map_err(error)?,
                };
                (program, by) = match kernel {
                    Kernel::Decides(program) => (Some(program), Some(FilteredBy::Kernel)),
                    Kernel::Sieves(program) => (Some(program), Some(FilteredBy::Both)),
                    Kernel::Not => (None, Some(FilteredBy::Process)),
                };
            }
            sockets.push(Socket::open(&device, options, program.as_ref(), by)?);
            descriptions.push((interface, by));
        }
        // When all are ready: with several, the first does not have what the last has missed.
        for socket in &sockets {
            socket.bind()?;
        }
        Ok(Interfaces { sockets, descriptions, is_described: false, stopped: None, gone: None })
    }

    /// What is said of each interface, and who filters its packets, if anybody does.
    pub fn interfaces(&self) -> impl Iterator<Item = (&Interface, Option<FilteredBy>)> {
        self.descriptions.iter().map(|(interface, by)| (interface, *by))
    }

    /// The socket whose next record is the oldest.
    fn oldest(&mut self) -> Option<usize> {
        let times = self.sockets.iter_mut().map(Socket::next_time).enumerate();
        times.filter_map(|(index, time)| Some((time?, index))).min().map(|(_, index)| index)
    }

    /// There is nothing in the rings: whether an interface has gone, or the end has come.
    fn at_rest(&mut self) -> Result<Drained, Error> {
        for (index, socket) in self.sockets.iter().enumerate() {
            if let (None, Some(error)) = (&self.gone, socket.failure()) {
                self.gone = Some((index, error));
            }
        }
        if self.gone.is_some() && self.stopped.is_none() {
            self.stop()?;
        }
        let Some(stopped) = self.stopped else { return Ok(Drained::Idle) };
        let mut is_over = true;
        for socket in &mut self.sockets {
            is_over &= socket.has_given_all()?;
        }
        if !is_over && stopped.elapsed().as_millis() < u128::from(END_MS) {
            return Ok(Drained::Idle);
        }
        match self.gone.take() {
            Some((index, error)) => Err(Error::Gone { name: self.sockets[index].name().to_owned(), error }),
            None => Ok(Drained::Ended),
        }
    }
}

impl Source for Interfaces {
    fn drain(&mut self, take: &mut dyn Take) -> Result<Drained, Error> {
        if !self.is_described {
            self.is_described = true;
            for (interface, by) in &self.descriptions {
                let is_here = matches!(by, Some(FilteredBy::Both | FilteredBy::Process));
                take.interface(interface, if is_here { Filtered::No } else { Filtered::Yes })?;
            }
        }
        let Some(mut index) = self.oldest() else { return self.at_rest() };
        let is_alone = self.sockets.len() == 1;
        for _ in 0..STEP_RECORDS {
            let Some(record) = self.sockets[index].record(index)? else { return Ok(Drained::More) };
            if take.record(&record)? == Flow::Pause {
                return Ok(Drained::More);
            }
            if !is_alone {
                match self.oldest() {
                    Some(oldest) => index = oldest,
                    None => return Ok(Drained::More),
                }
            }
        }
        Ok(Drained::More)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.as_fd()).collect()
    }

    fn counts(&mut self) -> Result<Vec<Counts>, Error> {
        self.sockets.iter_mut().map(Socket::counts).collect()
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.stopped = Some(Instant::now());
        self.sockets.iter().try_for_each(Socket::reject_all)
    }
}

impl std::fmt::Debug for Interfaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interfaces").field("descriptions", &self.descriptions).finish_non_exhaustive()
    }
}
