//! What a recording's trace says of itself: its classes, made of the events' schemas, and this machine: its name and clocks.

use std::fs;

use anyhow::Context as _;
use nix::time::{ClockId, clock_gettime};
use weir_event::schema::Schema;
use weir_trace::class::{ClockClass, TraceClass, Value};
use weir_trace::write::layout;

/// The classes of a trace of these events, of which the first `context_fields` fields are context; `about`: what else its environment says.
pub fn class(events: &[Schema], context_fields: usize, about: &[(&str, &str)]) -> anyhow::Result<TraceClass> {
    let text = |name: &str, text: &str| (name.to_owned(), Value::Str(text.to_owned()));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut version = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse::<i128>().unwrap_or(0));
    let mut environment =
        vec![text("hostname", host.trim_end()), text("domain", "ust"), text("tracer_name", "weir")];
    for name in ["tracer_major", "tracer_minor", "tracer_patchlevel"] {
        environment.push((name.to_owned(), Value::Int(version.next().unwrap_or(0))));
    }
    environment.extend(about.iter().map(|(name, value)| text(name, value)));
    let uuid = new_uuid()?;
    let mut class = layout::trace(uuid, monotonic(), environment);
    // All have the same.
    let context = events.first().map_or(Vec::new(), |event| layout::context(&event.fields[..context_fields]));
    let payload =
        |event: &Schema| Schema { fields: event.fields[context_fields..].to_vec(), ..event.clone() };
    let mut stream = layout::stream(0, context);
    stream.events = (0..).zip(events).map(|(id, event)| layout::event(id, &payload(event))).collect();
    class.streams.push(stream);
    Ok(class)
}

/// CLOCK_MONOTONIC, with how long after 1970 it began.
fn monotonic() -> ClockClass {
    let ns = |clock| {
        let now = clock_gettime(clock).expect("the clocks are always there");
        i128::from(now.tv_sec()) * 1_000_000_000 + i128::from(now.tv_nsec())
    };
    // The narrowest of a few: what interrupts one is long.
    let sample = |_| {
        let before = ns(ClockId::CLOCK_MONOTONIC);
        let real = ns(ClockId::CLOCK_REALTIME);
        let after = ns(ClockId::CLOCK_MONOTONIC);
        (after - before, real - (before + after) / 2)
    };
    // SANITY: there are some.
    let (_, offset) = (0..8).map(sample).min().expect("samples");
    ClockClass {
        name: "monotonic".to_owned(),
        uuid: uuid("boot_id").ok(),
        description: Some("Monotonic Clock".to_owned()),
        offset_s: offset.div_euclid(1_000_000_000) as i64,
        offset_cycles: offset.rem_euclid(1_000_000_000) as u64,
        ..ClockClass::default()
    }
}

/// For a trace of its own.
pub fn new_uuid() -> anyhow::Result<[u8; 16]> {
    uuid("uuid").context("making a UUID")
}

/// One that the kernel makes (random(4)): `uuid` a new one, `boot_id` that of this boot.
fn uuid(which: &str) -> anyhow::Result<[u8; 16]> {
    let path = format!("/proc/sys/kernel/random/{which}");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).with_context(|| path)?;
    Ok(number.to_be_bytes())
}
