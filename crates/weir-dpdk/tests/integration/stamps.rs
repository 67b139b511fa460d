//! Times of packets are those of CLOCK_REALTIME, for as long as a capture takes.
//!
//! The application writes the time before each burst into its packets; so a packet's time lies between that and what the next burst
//! of its thread says.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weir_dpdk_source::{Direction, Packet, State};

use crate::application::{Fake, filtered};

/// How long, and how many ns a time may lie outside: of `WEIR_STAMPS`, as `SEED:SECONDS`, a microsecond on a machine that has nothing else
/// to do. Readings of the clock that are interrupted are less exact.
fn scale() -> (Duration, u64) {
    let asked = std::env::var("WEIR_STAMPS").unwrap_or_default();
    let seconds = asked.split_once(':').and_then(|(_, seconds)| seconds.parse().ok());
    seconds.map_or((Duration::from_millis(300), 10_000), |seconds| (Duration::from_secs(seconds), 1_000))
}

#[test]
fn a_packet_s_time_lies_between_its_burst_and_the_next() {
    let (time, outside_max) = scale();
    let mut fake = Fake::start();
    let mut capture = fake.capture(&filtered("udp"));
    fake.go();
    let began = Instant::now();
    // By port and direction, of the last packet: its time, and that of its burst.
    let mut before: HashMap<(usize, Direction), (u64, u64)> = HashMap::new();
    let (mut packets, mut outside) = (0u64, 0);
    let mut look = |packet: &Packet<'_>| {
        let burst = u64::from_le_bytes(packet.bytes[60..68].try_into().unwrap());
        let (last, last_burst) =
            before.insert((packet.port, packet.direction), (packet.ns, burst)).unwrap_or_default();
        assert!(packet.ns >= last && burst >= last_burst, "times fall: {last} and {}", packet.ns);
        let late = if burst > last_burst { last.saturating_sub(burst) } else { 0 };
        outside = outside.max(burst.saturating_sub(packet.ns)).max(late);
        packets += 1;
        true
    };
    while began.elapsed() < time {
        let (given, state) = capture.poll(&mut look).unwrap();
        assert_eq!(state, State::Running);
        if given == 0 {
            // Between two looks: the verdict is about what comes, whenever that is.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    fake.halt();
    capture.stop().unwrap();
    while capture.poll(&mut look).unwrap().0 > 0 {}
    println!("counts: packets={packets} most_ns_outside={outside}");
    assert!(packets > 1000 && outside <= outside_max, "{outside} ns outside, of {packets} packets");
}
