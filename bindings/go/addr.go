package sctp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Addr is a transport address of an SCTP endpoint: IP addresses and a port (RFC 9260, section 1.3). An
// address without IP addresses stands for all addresses of the host.
type Addr struct {
	IPs  []netip.Addr
	Port int
}

// Network returns "sctp".
func (a *Addr) Network() string { return "sctp" }

// String returns the address as [ResolveAddr] accepts it: "192.0.2.1/198.51.100.1:38412",
// "[2001:db8::1]:38412" or ":38412".
func (a *Addr) String() string {
	if a == nil {
		return "<nil>"
	}
	var b strings.Builder
	for i, ip := range a.IPs {
		if i > 0 {
			b.WriteByte('/')
		}
		if ip.Is4() {
			b.WriteString(ip.String())
		} else {
			b.WriteString("[" + ip.String() + "]")
		}
	}
	b.WriteString(":" + strconv.Itoa(a.Port))
	return b.String()
}

// ResolveAddr returns the address of a string: IP addresses or names separated by "/", and a port or a
// service name. A name stands for all its addresses. The network is "sctp", "sctp4" or "sctp6", of which
// the last two select addresses of one family.
func ResolveAddr(network, address string) (*Addr, error) {
	return resolve(context.Background(), network, address)
}

func resolve(ctx context.Context, network, address string) (*Addr, error) {
	ipNetwork, err := ipNetwork(network)
	if err != nil {
		return nil, err
	}
	colon := strings.LastIndexByte(address, ':')
	if colon < 0 || strings.HasSuffix(address, "]") {
		return nil, &net.AddrError{Err: "missing port in address", Addr: address}
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", address[colon+1:])
	if err != nil {
		return nil, err
	}
	resolved := &Addr{Port: port}
	if colon == 0 {
		return resolved, nil
	}
	for _, host := range strings.Split(address[:colon], "/") {
		if inner, ok := strings.CutPrefix(host, "["); ok {
			if host, ok = strings.CutSuffix(inner, "]"); !ok {
				return nil, &net.AddrError{Err: "missing ']' in address", Addr: address}
			}
		} else if strings.Contains(host, ":") {
			return nil, &net.AddrError{Err: "IPv6 address without brackets", Addr: address}
		}
		if ip, err := netip.ParseAddr(host); err == nil {
			ip = ip.Unmap()
			if ipNetwork != "ip" && ip.Is4() != (ipNetwork == "ip4") {
				return nil, &net.AddrError{Err: "address of another family than " + network, Addr: host}
			}
			resolved.IPs = append(resolved.IPs, ip)
			continue
		}
		found, err := net.DefaultResolver.LookupNetIP(ctx, ipNetwork, host)
		if err != nil {
			return nil, err
		}
		for _, ip := range found {
			resolved.IPs = append(resolved.IPs, ip.Unmap())
		}
	}
	return resolved, nil
}

func ipNetwork(network string) (string, error) {
	switch network {
	case "sctp":
		return "ip", nil
	case "sctp4":
		return "ip4", nil
	case "sctp6":
		return "ip6", nil
	}
	return "", net.UnknownNetworkError(network)
}

// scope returns the scope identifier of a zone: the index of an interface, by number or name.
func scope(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if index, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(index)
	}
	if named, err := net.InterfaceByName(zone); err == nil {
		return uint32(named.Index)
	}
	return 0
}

// family returns the address family of a socket with these addresses, and whether it is for IPv6 alone.
func family(network string, local, remote *Addr) (int32, bool, error) {
	if _, err := ipNetwork(network); err != nil {
		return 0, false, err
	}
	switch network {
	case "sctp4":
		return afInet, false, nil
	case "sctp6":
		return afInet6, true, nil
	}
	known := false
	for _, address := range []*Addr{local, remote} {
		if address == nil {
			continue
		}
		for _, ip := range address.IPs {
			if !ip.Is4() && !ip.Is4In6() {
				return afInet6, false, nil
			}
			known = true
		}
	}
	if known {
		return afInet, false, nil
	}
	return afInet6, false, nil
}

// pack returns the addresses for a socket of a family, packed, with a port.
func (a *Addr) pack(family int32, port int) ([]byte, error) {
	if port < 0 || port > 0xffff {
		return nil, &net.AddrError{Err: "invalid port", Addr: strconv.Itoa(port)}
	}
	ips := a.IPs
	if len(ips) == 0 {
		ips = []netip.Addr{netip.IPv6Unspecified()}
		if family == afInet {
			ips[0] = netip.IPv4Unspecified()
		}
	}
	var packed []byte
	for _, ip := range ips {
		if family == afInet {
			ip = ip.Unmap()
		} else if ip.Is4() {
			ip = netip.AddrFrom16(ip.As16())
		}
		if family == afInet && !ip.Is4() || !ip.IsValid() {
			return nil, &net.AddrError{Err: "address of another family than the socket", Addr: fmt.Sprint(ip)}
		}
		packed = appendSockaddr(packed, netip.AddrPortFrom(ip, uint16(port)))
	}
	return packed, nil
}

// addrOf returns the address of a list of addresses of a socket.
func addrOf(list []netip.AddrPort) *Addr {
	a := &Addr{}
	for _, item := range list {
		a.IPs = append(a.IPs, item.Addr().Unmap())
		a.Port = int(item.Port())
	}
	return a
}
