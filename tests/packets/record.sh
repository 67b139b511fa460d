#!/bin/bash
# Records veth.pcap and any.pcap anew, in the working directory: traffic between two network namespaces. Needs root, iproute2, tcpdump,
# curl and python3.
set -e
A=weir-a-$$; B=weir-b-$$
ip netns add $A; ip netns add $B
trap 'kill $D1 $D2 $S1 2>/dev/null; ip netns del $A; ip netns del $B; rm -rf "$W"' EXIT
ip link add va netns $A address 02:00:00:00:0a:01 type veth peer name vb netns $B address 02:00:00:00:0b:02
ip -n $A addr add 10.1.0.1/24 dev va; ip -n $B addr add 10.1.0.2/24 dev vb
ip -n $A addr add 2001:db8::1/64 dev va nodad; ip -n $B addr add 2001:db8::2/64 dev vb nodad
ip -n $A link set lo up; ip -n $A link set va up; ip -n $B link set vb up; ip -n $B link set lo up
ip netns exec $A tcpdump -q -U -s 160 -i va -w veth.pcap 2>/dev/null & D1=$!
ip netns exec $A tcpdump -q -U -s 160 -i any -y LINUX_SLL2 -w any.pcap 2>/dev/null & D2=$!
sleep 1
ip -n $A link add vxa type vxlan id 7 dstport 4789 remote 10.1.0.2 dev va; ip -n $B link add vxb type vxlan id 7 dstport 4789 remote 10.1.0.1 dev vb
ip -n $A addr add 192.168.7.1/24 dev vxa; ip -n $B addr add 192.168.7.2/24 dev vxb
for l in vxa; do ip -n $A link set $l up; done; for l in vxb; do ip -n $B link set $l up; done
sleep 2
W=$(mktemp -d); head -c 4000 /dev/urandom | base64 > $W/f
(cd $W; exec ip netns exec $B python3 -m http.server --bind :: 80 >/dev/null 2>&1) & S1=$!
sleep 1
ip netns exec $A curl -s http://10.1.0.2/f -o /dev/null
ip netns exec $A curl -s 'http://[2001:db8::2]/f' -o /dev/null
ip netns exec $A curl -s http://192.168.7.2/ -o /dev/null
ip netns exec $A curl -s http://10.1.0.2:8080/ -o /dev/null || true
ip netns exec $A python3 - <<'P'
import socket,struct,sys
def ck(b):
    s=sum(struct.unpack('!%dH'%(len(b)//2),b)); s=(s>>16)+(s&0xffff); s+=s>>16; return ~s&0xffff
u=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)
u.sendto(b'q'*40,('10.1.0.2',53)); u.sendto(b'n'*48,('10.1.0.2',123)); u.sendto(b'f'*4000,('10.1.0.2',5353))
u.setsockopt(socket.SOL_SOCKET,socket.SO_BROADCAST,1); u.sendto(b'b'*30,('10.1.0.255',67))
u.setsockopt(socket.IPPROTO_IP,socket.IP_MULTICAST_IF,socket.inet_aton('10.1.0.1')); u.sendto(b'm'*30,('224.0.0.251',5353))
u.setsockopt(socket.IPPROTO_IP,socket.IP_OPTIONS,bytes([7,11,4]+[0]*9)); u.sendto(b'o'*20,('10.1.0.2',53))
v=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM)
v.sendto(b'q'*40,('2001:db8::2',53)); v.sendto(b'f'*4000,('2001:db8::2',5353))
v.setsockopt(41,54,bytes([0,0,1,4,0,0,0,0])); v.sendto(b'h'*30,('2001:db8::2',53))
r=socket.socket(socket.AF_INET,socket.SOCK_RAW,socket.IPPROTO_ICMP)
p=struct.pack('!BBHHH',8,0,0,1,1)+b'p'*32; p=p[:2]+struct.pack('!H',ck(p))+p[4:]; r.sendto(p,('10.1.0.2',0))
r=socket.socket(socket.AF_INET6,socket.SOCK_RAW,socket.IPPROTO_ICMPV6); r.sendto(struct.pack('!BBHHH',128,0,0,1,1)+b'p'*32,('2001:db8::2',0))
try:
    c=socket.socket(socket.AF_INET,socket.SOCK_STREAM,132); c.connect(('10.1.0.2',99))
except OSError as e: print(e)
for proto in (2,47,50,51,103,112): 
    x=socket.socket(socket.AF_INET,socket.SOCK_RAW,proto); x.sendto(b'\0'*24,('10.1.0.2',0))
w=socket.socket(socket.AF_PACKET,socket.SOCK_RAW); w.bind(('va',0))
src=bytes.fromhex('020000000a01'); dst=bytes.fromhex('020000000b02')
ip=bytes.fromhex('4500001c000100004011')+b'\0\0'+socket.inet_aton('10.1.0.1')+socket.inet_aton('10.1.0.2')+struct.pack('!HHHH',1234,53,8,0)
for tag in (b'\x81\x00\x00\x05\x08\x00',b'\x88\xa8\x00\x07\x81\x00\x00\x05\x08\x00',b'\x88\x47\x00\x01\x01\x40',b'\x88\x64\x11\x00\x00\x27\x00\x1e\x00\x21'):
    w.send(dst+src+tag+ip)
w.send(dst+src+struct.pack('!H',8)+bytes.fromhex('4242030000000000'))
P
sleep 2
