//go:build linux

// Package compat has what the compatibility modules for github.com/ishidawataru/sctp and
// github.com/free5gc/sctp have in common. Programs use one of these two, not this package.
package compat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	sctp "github.com/carrick-sctp/carrick/bindings/go"
)

var native = binary.NativeEndian

// SCTPAddr is the addresses and the port of an endpoint.
type SCTPAddr struct {
	IPAddrs []net.IPAddr
	Port    int
}

// Network returns "sctp".
func (a *SCTPAddr) Network() string { return "sctp" }

// String returns the addresses, separated by "/", and the port.
func (a *SCTPAddr) String() string {
	hosts := make([]string, len(a.IPAddrs))
	for i, ip := range a.IPAddrs {
		hosts[i] = ip.String()
		if ip.IP.To4() == nil {
			hosts[i] = "[" + hosts[i] + "]"
		}
	}
	return strings.Join(hosts, "/") + ":" + strconv.Itoa(a.Port)
}

// ToRawSockAddrBuf returns the addresses as packed sockaddr_in and sockaddr_in6; without addresses, the
// unspecified IPv4 address.
func (a *SCTPAddr) ToRawSockAddrBuf() []byte {
	ips := a.IPAddrs
	if len(ips) == 0 {
		ips = []net.IPAddr{{IP: net.IPv4zero}}
	}
	var packed []byte
	for _, ip := range ips {
		port := binary.BigEndian.AppendUint16(nil, uint16(a.Port))
		if octets := ip.IP.To4(); octets != nil {
			packed = append(native.AppendUint16(packed, 2), port...)
			packed = append(append(packed, octets...), make([]byte, 8)...)
			continue
		}
		packed = append(native.AppendUint16(packed, 10), port...)
		packed = append(packed, 0, 0, 0, 0)
		packed = append(packed, ip.IP.To16()...)
		packed = native.AppendUint32(packed, interfaceIndex(ip.Zone))
	}
	return packed
}

func interfaceIndex(zone string) uint32 {
	if named, err := net.InterfaceByName(zone); err == nil {
		return uint32(named.Index)
	}
	number, err := strconv.ParseUint(zone, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(number)
}

// ResolveSCTPAddr returns the address of a string such as "192.0.2.1/198.51.100.1:38412". The network is
// "sctp", "sctp4", "sctp6" or "".
func ResolveSCTPAddr(network, address string) (*SCTPAddr, error) {
	ip := ""
	switch network {
	case "", "sctp":
		ip = "ip"
	case "sctp4":
		ip = "ip4"
	case "sctp6":
		ip = "ip6"
	default:
		return nil, fmt.Errorf("invalid net: %s", network)
	}
	if address == "" {
		return &SCTPAddr{}, nil
	}
	hosts := strings.Split(address, "/")
	last := hosts[len(hosts)-1]
	host, service, err := net.SplitHostPort(last)
	if err != nil {
		return nil, err
	}
	port, err := net.LookupPort("tcp", service)
	if err != nil {
		return nil, err
	}
	resolved := &SCTPAddr{Port: port}
	if host == "" && len(hosts) == 1 {
		return resolved, nil
	}
	hosts[len(hosts)-1] = host
	for i, host := range hosts {
		if i < len(hosts)-1 && strings.Contains(host, ":") {
			inner, opened := strings.CutPrefix(host, "[")
			inner, closed := strings.CutSuffix(inner, "]")
			if !opened || !closed {
				return nil, &net.AddrError{Err: "too many colons in address", Addr: host}
			}
			host = inner
		}
		found, err := net.ResolveIPAddr(ip, host)
		if err != nil {
			return nil, err
		}
		resolved.IPAddrs = append(resolved.IPAddrs, *found)
	}
	return resolved, nil
}

func networkOf(network string) string {
	if network == "" {
		return "sctp"
	}
	return network
}

var errNoAddress = errors.New("sctp: missing remote address")

// core returns the address of the package below.
func (a *SCTPAddr) core() *sctp.Addr {
	if a == nil {
		return nil
	}
	converted := &sctp.Addr{Port: a.Port}
	for _, ip := range a.IPAddrs {
		if address, ok := netip.AddrFromSlice(ip.IP); ok {
			converted.IPs = append(converted.IPs, address.Unmap().WithZone(ip.Zone))
		}
	}
	return converted
}

func addrOf(a *sctp.Addr) *SCTPAddr {
	converted := &SCTPAddr{Port: a.Port}
	for _, ip := range a.IPs {
		converted.IPAddrs = append(converted.IPAddrs, net.IPAddr{IP: ip.AsSlice(), Zone: ip.Zone()})
	}
	return converted
}
