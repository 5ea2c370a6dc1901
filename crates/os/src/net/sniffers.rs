//! Sockets that receive copies of the packets of a network device: those of tcpdump and similar
//! programs, of some DHCP clients and monitoring agents.
//!
//! Source: packet(7), net/packet/af_packet.c (`packet_seq_show`). `CONFIG_PACKET`.

use std::fs;
use std::io;

/// The protocols with which a socket receives IP packets: `ETH_P_ALL`, `ETH_P_IP`, `ETH_P_IPV6`. One that
/// only sends has 0.
const IP: [u16; 3] = [0x0003, 0x0800, 0x86dd];

/// How many are open on the device with this index, in the calling thread's network namespace.
///
/// # Errors
///
/// When /proc/net/packet cannot be read.
pub fn on(device_index: u32) -> io::Result<u32> {
    let table = fs::read_to_string("/proc/thread-self/net/packet")?;
    Ok(count(&table, device_index))
}

/// Lines of a socket's address, references, type, protocol, device (0: all), whether it runs, and
/// what does not matter here, after one of their names.
fn count(table: &str, device_index: u32) -> u32 {
    let sniffs = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, protocol, device, runs, ..] = words[..] else {
            return false;
        };
        let protocol = u16::from_str_radix(protocol, 16);
        let device: Result<u32, _> = device.parse();
        protocol.is_ok_and(|protocol| IP.contains(&protocol))
            && device.is_ok_and(|device| device == 0 || device == device_index)
            && runs == "1"
    };
    table.lines().skip(1).filter(sniffs).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_are_given_packets_of_the_device_count() {
        let table = "\
sk               RefCnt Type Proto  Iface R Rmem   User   Inode
0000000000000000 3      3    0003   0     1 0      0      1
0000000000000000 3      3    0003   2     1 0      0      2
0000000000000000 3      2    0800   2     1 0      0      3
0000000000000000 3      3    0003   5     1 0      0      4
0000000000000000 3      3    0003   2     0 0      0      5
0000000000000000 3      3    0000   2     1 0      0      6
0000000000000000 3      3    88cc   2     1 0      0      7
";
        assert_eq!(count(table, 2), 3);
        assert_eq!(count(table, 1), 1);
        assert_eq!(count("", 1), 0);
    }
}
