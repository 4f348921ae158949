//go:build linux

package sctp

import (
	"net/netip"
	"testing"
)

// Sizes of the structs in linux/sctp.h.
func TestOptionsHaveLinuxSizes(t *testing.T) {
	for size, value := range map[int]any{
		8:   &InitMsg{},
		16:  &RTOInfo{},
		20:  &AssocParams{},
		12:  &DelayedSack{},
		132: &primary{},
		152: &peerAddrInfo{},
		156: &peerAddrParams{},
	} {
		if got := len(pack(value)); got != size {
			t.Errorf("%T has %d bytes, not %d", value, got, size)
		}
	}
}

func TestAddressesResolve(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for text, want := range map[string]Addr{
		":38412":                         {Port: 38412},
		"192.0.2.1:0":                    {IPs: []netip.Addr{v4}},
		"[2001:db8::1]:80":               {IPs: []netip.Addr{v6}, Port: 80},
		"192.0.2.1/[2001:db8::1]:65535":  {IPs: []netip.Addr{v4, v6}, Port: 65535},
		"[2001:db8::1]/192.0.2.1:38412":  {IPs: []netip.Addr{v6, v4}, Port: 38412},
		"[::ffff:192.0.2.1]:38412":       {IPs: []netip.Addr{v4}, Port: 38412},
		"[2001:db8::1]/192.0.2.1:domain": {IPs: []netip.Addr{v6, v4}, Port: 53},
	} {
		got, err := ResolveAddr("sctp", text)
		if err != nil || got.String() != want.String() {
			t.Errorf("%q became %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "192.0.2.1", "[::1]", "::1:5", "[::1:5", "192.0.2.1:65536", "192.0.2.1/:5"} {
		if got, err := ResolveAddr("sctp", text); err == nil {
			t.Errorf("%q became %v", text, got)
		}
	}
	if _, err := ResolveAddr("sctp6", "192.0.2.1:5"); err == nil {
		t.Error("an IPv4 address is none of IPv6")
	}
	if _, err := ResolveAddr("udp", ":5"); err == nil {
		t.Error("udp is another network")
	}
}
