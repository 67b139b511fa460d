//! Shows.
use weir_pcap_filter::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let link = LinkType::named(&args[1]).unwrap();
    let options = Options { link_type: link, snaplen: 262144, netmask: Some(0xffffff00) };
    for text in &args[2..] {
        println!("# {text}");
        match compile(text, &options, &NoNames) { Ok(f) => print!("{}", f.graph), Err(e) => println!("{e:?}") }
    }
}
