//! What each file of a rotation has before its packets.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_pcapng::{Address, Interface, InterfaceId, Names, Server, WriteError, Writer};

use crate::error::Error;
use crate::limits::REPEATED_BYTES_MAX;

/// Interfaces, secrets and names so far, in their order.
#[derive(Default)]
pub(super) struct Repeated {
    items: Vec<Item>,
    bytes: usize,
}

enum Item {
    Interface(Box<Interface>),
    Secrets(u32, Vec<u8>),
    Names(OwnNames),
}

impl Repeated {
    pub(super) fn interface(&mut self, interface: &Interface) {
        self.items.push(Item::Interface(Box::new(interface.clone())));
    }

    pub(super) fn secrets(&mut self, kind: u32, bytes: &[u8]) -> Result<(), Error> {
        self.add(bytes.len())?;
        self.items.push(Item::Secrets(kind, bytes.to_owned()));
        Ok(())
    }

    pub(super) fn names(&mut self, names: OwnNames) -> Result<(), Error> {
        self.add(names.bytes())?;
        self.items.push(Item::Names(names));
        Ok(())
    }

    fn add(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        if self.bytes > REPEATED_BYTES_MAX {
            let what = format!(
                "secrets and names have more than {REPEATED_BYTES_MAX} bytes, the limit for what is repeated in each file of a rotation"
            );
            return Err(Error::Limit(what));
        }
        Ok(())
    }

    /// Writes them; the interfaces' numbers.
    pub(super) fn write<W: Write>(&self, writer: &mut Writer<W>) -> Result<Vec<InterfaceId>, WriteError> {
        let mut ids = Vec::new();
        for item in &self.items {
            match item {
                Item::Interface(interface) => ids.push(writer.interface(interface)?),
                Item::Secrets(kind, bytes) => writer.secrets(*kind, bytes)?,
                Item::Names(names) => names.write(writer)?,
            }
        }
        Ok(ids)
    }
}

/// Names of a file, copied out of its reader.
pub(super) struct OwnNames {
    records: Vec<(Address, Vec<String>)>,
    server: Option<String>,
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
    comments: Vec<String>,
}

impl OwnNames {
    pub(super) fn of(names: &Names<'_>) -> OwnNames {
        let texts = |texts: weir_pcapng::Texts<'_>| texts.map(|text| text.into_owned()).collect();
        OwnNames {
            records: names.records().map(|(address, of)| (address, texts(of))).collect(),
            server: names.server_name().map(|name| name.into_owned()),
            ipv4: names.server_ipv4(),
            ipv6: names.server_ipv6(),
            comments: names.comments().map(|comment| comment.into_owned()).collect(),
        }
    }

    pub(super) fn listed(records: &[(Address, Vec<String>)]) -> OwnNames {
        let (server, ipv4, ipv6, comments) = (None, None, None, Vec::new());
        OwnNames { records: records.to_owned(), server, ipv4, ipv6, comments }
    }

    fn bytes(&self) -> usize {
        let names = self.records.iter().flat_map(|(_, names)| names);
        names.chain(&self.comments).map(|text| text.len() + 32).sum()
    }

    pub(super) fn write<W: Write>(&self, writer: &mut Writer<W>) -> Result<(), WriteError> {
        let names: Vec<Vec<&str>> =
            self.records.iter().map(|(_, names)| names.iter().map(String::as_str).collect()).collect();
        let records: Vec<(Address, &[&str])> =
            self.records.iter().zip(&names).map(|((address, _), names)| (*address, &names[..])).collect();
        let comments: Vec<&str> = self.comments.iter().map(String::as_str).collect();
        let server =
            Server { name: self.server.as_deref(), ipv4: self.ipv4, ipv6: self.ipv6, comments: &comments };
        writer.names(&records, &server)
    }
}
