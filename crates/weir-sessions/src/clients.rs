//! Those who ask the daemon: each says one thing, and gets one answer.
//!
//! In: connections of the socket. Out: requests, each with the number of who asked; [`Clients::answer`] gives the answer back. Nothing waits:
//! what a client has not said yet, or does not take, is tried again at the next round, and who takes too long for either is let go. Of
//! other users, who cannot reach the socket as long as its folder is the user's alone, nobody is heard.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::geteuid;

use crate::limits;
use crate::protocol::{Answer, Hello, Outcome, PROTOCOL, Request};

pub(crate) struct Clients {
    listener: UnixListener,
    clients: Vec<Client>,
    /// What the next one is called.
    next: u64,
}

struct Client {
    number: u64,
    stream: UnixStream,
    said: Vec<u8>,
    state: State,
    to_write: Vec<u8>,
    since: Instant,
}

enum State {
    /// Until it has said what it wants.
    Heard,
    /// It has, and nobody has looked at it.
    Asks(Request),
    /// Somebody has.
    Waits,
    /// Its answer is on its way.
    Answered,
    Gone,
}

impl Clients {
    pub(crate) fn new(listener: UnixListener) -> std::io::Result<Clients> {
        listener.set_nonblocking(true)?;
        Ok(Clients { listener, clients: Vec::new(), next: 0 })
    }

    /// Takes who has come, and what they say.
    pub(crate) fn look(&mut self) {
        while self.clients.len() < limits::CONNECTIONS {
            let Ok((stream, _)) = self.listener.accept() else { break };
            self.take(stream);
        }
        self.clients.iter_mut().for_each(Client::look);
        self.clients.retain(|client| !matches!(client.state, State::Gone));
    }

    fn take(&mut self, stream: UnixStream) {
        let uid = geteuid().as_raw();
        let (number, since) = (self.next, Instant::now());
        self.next += 1;
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let hello = Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id().into(),
            uid: uid.into(),
        };
        let to_write = hello.line().into_bytes();
        let mut client = Client { number, stream, said: Vec::new(), state: State::Heard, to_write, since };
        match getsockopt(&client.stream, sockopt::PeerCredentials) {
            Ok(peer) if peer.uid() == uid => {}
            Ok(peer) => {
                client.refuse(format!("this daemon is user {uid}'s, and you are user {}", peer.uid()))
            }
            Err(errno) => client.refuse(format!("who you are is not known: {errno}")),
        }
        self.clients.push(client);
    }

    /// Those who ask and were not looked at, or were put back, in the order in which they came.
    pub(crate) fn asking(&self) -> Vec<(u64, Request)> {
        let asks = |client: &Client| match &client.state {
            State::Asks(request) => Some((client.number, request.clone())),
            _ => None,
        };
        self.clients.iter().filter_map(asks).collect()
    }

    /// How many there are of these.
    pub(crate) fn count_asking(&self) -> usize {
        self.clients.iter().filter(|client| matches!(client.state, State::Asks(_))).count()
    }

    /// Its request is being done; [`Clients::answer`] will come.
    pub(crate) fn keep_waiting(&mut self, number: u64) {
        if let Some(client) = self.client(number) {
            client.state = State::Waits;
        }
    }

    /// One that has gone meanwhile gets none.
    pub(crate) fn answer(&mut self, number: u64, answer: &Answer) {
        if let Some(client) = self.client(number) {
            client.answer(answer);
        }
    }

    fn client(&mut self, number: u64) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.number == number)
    }

    /// Nobody is being heard or waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// What tells of them, for the poll.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = PollFd<'_>> {
        let is_room = self.clients.len() < limits::CONNECTIONS;
        let listener = is_room.then(|| PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        let of = |client: &Client| match client.state {
            State::Heard => PollFlags::POLLIN,
            _ => PollFlags::empty(),
        };
        let writes = |client: &Client| match client.to_write.is_empty() {
            true => PollFlags::empty(),
            false => PollFlags::POLLOUT,
        };
        // One that waits is not looked at: that it has gone would be told all the time.
        let clients = self.clients.iter().filter_map(move |client| {
            let flags = of(client) | writes(client);
            (!flags.is_empty()).then(|| PollFd::new(client.stream.as_fd(), flags))
        });
        listener.into_iter().chain(clients)
    }
}

impl Client {
    fn look(&mut self) {
        if matches!(self.state, State::Heard) {
            self.hear();
        }
        while !self.to_write.is_empty() {
            match self.stream.write(&self.to_write) {
                Ok(count) if count > 0 => _ = self.to_write.drain(..count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                _ => {
                    self.state = State::Gone;
                    return;
                }
            }
        }
        let is_late = self.since.elapsed() > limits::CLIENT_WAIT;
        match self.state {
            State::Answered if self.to_write.is_empty() || is_late => self.state = State::Gone,
            State::Heard if is_late => self.state = State::Gone,
            _ => {}
        }
    }

    fn hear(&mut self) {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => {
                    self.state = State::Gone;
                    return;
                }
                Ok(count) => self.said.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.state = State::Gone;
                    return;
                }
            }
            if let Some(end) = self.said.iter().position(|byte| *byte == b'\n') {
                let said = std::mem::take(&mut self.said);
                match Request::of_line(&said[..end]) {
                    Ok(request) => self.state = State::Asks(request),
                    Err(why) => self.refuse(why),
                }
                return;
            }
            if self.said.len() > limits::REQUEST_BYTES {
                return self.refuse(format!("a request has {} bytes at most", limits::REQUEST_BYTES));
            }
        }
    }

    fn refuse(&mut self, why: String) {
        self.answer(&Answer::of(Outcome::Refused(why)));
    }

    fn answer(&mut self, answer: &Answer) {
        self.to_write.extend_from_slice(answer.line().as_bytes());
        (self.state, self.since) = (State::Answered, Instant::now());
    }
}
