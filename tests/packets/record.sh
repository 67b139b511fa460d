#!/bin/bash
# Records veth.txt and any.txt anew, in the working directory: traffic between two network namespaces, as tcpdump captures it. Needs root,
# iproute2, tcpdump, curl and python3.
set -e
A=weir-a-$$ B=weir-b-$$
SERVED=$(mktemp -d)
ip netns add $A
ip netns add $B
trap 'kill $CAPTURES $SERVER 2>/dev/null; ip netns del $A; ip netns del $B; rm -rf "$SERVED" veth.pcap any.pcap' EXIT

ip link add va netns $A address 02:00:00:00:0a:01 type veth peer name vb netns $B address 02:00:00:00:0b:02
ip -n $A addr add 10.1.0.1/24 dev va
ip -n $B addr add 10.1.0.2/24 dev vb
ip -n $A addr add 2001:db8::1/64 dev va nodad
ip -n $B addr add 2001:db8::2/64 dev vb nodad
for end in "$A va" "$A lo" "$B vb" "$B lo"; do
	ip -n ${end% *} link set ${end#* } up
done
ip netns exec $A tcpdump -q -U -s 160 -i va -w veth.pcap 2>/dev/null &
CAPTURES=$!
ip netns exec $A tcpdump -q -U -s 160 -i any -y LINUX_SLL2 -w any.pcap 2>/dev/null &
CAPTURES="$CAPTURES $!"
sleep 1

# A tunnel with traffic inside.
ip -n $A link add vxa type vxlan id 7 dstport 4789 remote 10.1.0.2 dev va
ip -n $B link add vxb type vxlan id 7 dstport 4789 remote 10.1.0.1 dev vb
ip -n $A addr add 192.168.7.1/24 dev vxa
ip -n $B addr add 192.168.7.2/24 dev vxb
ip -n $A link set vxa up
ip -n $B link set vxb up
sleep 2

# TCP: a web server, over IPv4, IPv6 and the tunnel, and a port that nobody listens at.
head -c 4000 /dev/urandom | base64 > "$SERVED/f"
(cd "$SERVED" && exec ip netns exec $B python3 -m http.server --bind :: 80 >/dev/null 2>&1) &
SERVER=$!
sleep 1
for url in http://10.1.0.2/f 'http://[2001:db8::2]/f' http://192.168.7.2/ http://10.1.0.2:8080/; do
	ip netns exec $A curl -s "$url" -o /dev/null || true
done

ip netns exec $A python3 - <<'P'
import socket, struct

def udp(family, *options):
    found = socket.socket(family, socket.SOCK_DGRAM)
    for option in options:
        found.setsockopt(*option)
    return found

# Datagrams, in fragments too; broadcast, multicast, IP options, a hop-by-hop header.
found = udp(socket.AF_INET, (socket.SOL_SOCKET, socket.SO_BROADCAST, 1),
            (socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton('10.1.0.1')))
for size, address in ((40, ('10.1.0.2', 53)), (48, ('10.1.0.2', 123)), (4000, ('10.1.0.2', 5353)),
                      (30, ('10.1.0.255', 67)), (30, ('224.0.0.251', 5353))):
    found.sendto(b'q' * size, address)
udp(socket.AF_INET, (socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([7, 11, 4] + [0] * 9))).sendto(b'o' * 20, ('10.1.0.2', 53))
for size in (40, 4000):
    udp(socket.AF_INET6).sendto(b'q' * size, ('2001:db8::2', 5353))
udp(socket.AF_INET6, (41, 54, bytes([0, 0, 1, 4, 0, 0, 0, 0]))).sendto(b'h' * 30, ('2001:db8::2', 53))

# Pings, and other protocols of IP.
def checksum(data):
    total = sum(struct.unpack('!%dH' % (len(data) // 2), data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff

ping = struct.pack('!BBHHH', 8, 0, 0, 1, 1) + b'p' * 32
ping = ping[:2] + struct.pack('!H', checksum(ping)) + ping[4:]
socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).sendto(ping, ('10.1.0.2', 0))
socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6).sendto(
    struct.pack('!BBHHH', 128, 0, 0, 1, 1) + b'p' * 32, ('2001:db8::2', 0))
for protocol in (2, 47, 50, 51, 103, 112):
    socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol).sendto(b'\0' * 24, ('10.1.0.2', 0))

# Frames: VLAN, VLAN in VLAN, MPLS, PPPoE, 802.2.
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(('va', 0))
ethernet = bytes.fromhex('020000000b02020000000a01')
packet = (bytes.fromhex('4500001c0001000040110000') + socket.inet_aton('10.1.0.1') + socket.inet_aton('10.1.0.2')
          + struct.pack('!HHHH', 1234, 53, 8, 0))
for tags in ('810000050800', '88a8000781000005' + '0800', '884700010140', '886411000027001e0021'):
    link.send(ethernet + bytes.fromhex(tags) + packet)
link.send(ethernet + struct.pack('!H', 8) + bytes.fromhex('4242030000000000'))
P
sleep 2

python3 - <<'P'
import struct

about = {'veth': 'EN10MB: one end of a veth pair', 'any': 'LINUX_SLL2: all interfaces of a namespace'}
for name in about:
    file = open(name + '.pcap', 'rb').read()
    lines = ['# Recorded by record.sh: %s. The link type, then a packet a line: its length on the wire, the bytes that were '
             'captured.' % about[name], str(struct.unpack_from('<I', file, 20)[0])]
    at = 24
    while at < len(file):
        captured, length = struct.unpack_from('<II', file, at + 8)
        lines.append('%d %s' % (length, file[at + 16:at + 16 + captured].hex()))
        at += 16 + captured
    open(name + '.txt', 'w').write('\n'.join(lines) + '\n')
P
