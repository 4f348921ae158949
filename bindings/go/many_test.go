//go:build linux

package sctp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

func (d testDaemon) many(t *testing.T) (*OneToMany, netip.AddrPort) {
	t.Helper()
	config := d.config()
	config.Events = []NotificationType{AssocChangeType, ShutdownEventType}
	m, err := config.ListenMany("sctp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	m.SetDeadline(time.Now().Add(limit))
	return m, netip.MustParseAddrPort(m.Addr().String())
}

// next reads a message or notification.
func next(t *testing.T, s *Socket) (string, RcvInfo, Notification) {
	t.Helper()
	b := make([]byte, 4096)
	n, info, err := s.ReadMsg(b)
	if err != nil {
		t.Fatal(err)
	}
	if !info.IsNotification() {
		return string(b[:n]), info, nil
	}
	notification, err := ParseNotification(b[:n])
	if err != nil {
		t.Fatal(err)
	}
	return "", info, notification
}

func expectState(t *testing.T, s *Socket, want AssocChangeState) AssocID {
	t.Helper()
	for {
		data, _, notification := next(t, s)
		switch n := notification.(type) {
		case *AssocChange:
			if n.State != want {
				t.Fatalf("state %d, not %d", n.State, want)
			}
			return n.AssocID
		case *ShutdownEvent:
		default:
			t.Fatalf("%q, %#v", data, notification)
		}
	}
}

// RFC 6458, section 3.1: the first message sets up the association.
func TestFirstMessageSetsUpTheAssociation(t *testing.T) {
	d := daemon(t)
	a, _ := d.many(t)
	b, to := d.many(t)
	if _, err := a.WriteMsgTo([]byte("first"), &SndInfo{Stream: 1, PPID: 60}, to); err != nil {
		t.Fatal(err)
	}
	ours, theirs := expectState(t, a.Socket, CommUp), expectState(t, b.Socket, CommUp)
	data, info, _ := next(t, b.Socket)
	if data != "first" || info.Stream != 1 || info.PPID != 60 || info.AssocID != theirs {
		t.Fatalf("%q, %+v", data, info)
	}
	if _, err := b.WriteMsg([]byte("reply"), &SndInfo{AssocID: info.AssocID}); err != nil {
		t.Fatal(err)
	}
	if data, _, _ := next(t, a.Socket); data != "reply" {
		t.Fatalf("%q", data)
	}
	ids, err := a.AssocIDs()
	if err != nil || len(ids) != 1 || ids[0] != ours || ours <= AllAssoc {
		t.Fatal(ids, err)
	}
	if status, err := a.Status(ours); err != nil || status.State != StateEstablished {
		t.Fatalf("%+v, %v", status, err)
	}
	if err := a.ShutdownAssoc(ours); err != nil {
		t.Fatal(err)
	}
	expectState(t, a.Socket, ShutdownComplete)
	expectState(t, b.Socket, ShutdownComplete)
}

func TestAbortOfOneAssociation(t *testing.T) {
	d := daemon(t)
	a, _ := d.many(t)
	b, to := d.many(t)
	id, err := a.Connect(&Addr{IPs: []netip.Addr{to.Addr()}, Port: int(to.Port())})
	if err != nil {
		t.Fatal(err)
	}
	if up := expectState(t, a.Socket, CommUp); up != id {
		t.Fatalf("association %d, not %d", up, id)
	}
	expectState(t, b.Socket, CommUp)
	if err := a.AbortAssoc(id); err != nil {
		t.Fatal(err)
	}
	expectState(t, b.Socket, CommLost)
}

// RFC 6458, sections 5.3.4 and 8.1.8
func TestSendAllAndAutoClose(t *testing.T) {
	d := daemon(t)
	m, to := d.many(t)
	clients := []*Conn{d.dial(t, to.String()), d.dial(t, to.String())}
	for range clients {
		expectState(t, m.Socket, CommUp)
	}
	if _, err := m.WriteMsg([]byte("all"), &SndInfo{Flags: SendAll, PPID: 7}); err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		if data, info, _ := next(t, c.Socket); data != "all" || info.PPID != 7 {
			t.Errorf("%q, %+v", data, info)
		}
	}
	if err := m.SetAutoClose(time.Second); err != nil {
		t.Fatal(err)
	}
	late := d.dial(t, to.String())
	late.SetDeadline(time.Now().Add(limit))
	if _, err := late.Read(make([]byte, 10)); err != io.EOF {
		t.Error(err)
	}
	if err := clients[0].SetAutoClose(time.Second); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("one-to-one: %v", err)
	}
}

// RFC 6458, section 9.2
func TestPeeloff(t *testing.T) {
	for _, queues := range []bool{false, true} {
		t.Run(fmt.Sprintf("queues=%v", queues), func(t *testing.T) { peelOff(t, queues) })
	}
}

func peelOff(t *testing.T, queues bool) {
	d := daemon(t)
	m, to := d.many(t)
	client := d.dial(t, to.String())
	if _, err := client.Write([]byte("queued")); err != nil {
		t.Fatal(err)
	}
	id := expectState(t, m.Socket, CommUp)
	if queues {
		// The message waits on the descriptor of the socket.
		time.Sleep(100 * time.Millisecond)
	}
	c, err := m.Peeloff(id)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.RemoteAddr().String() != client.LocalAddr().String() {
		t.Errorf("%v differs from %v", c.RemoteAddr(), client.LocalAddr())
	}
	b := make([]byte, 100)
	c.SetDeadline(time.Now().Add(limit))
	if n, err := c.Read(b); err != nil || string(b[:n]) != "queued" {
		t.Fatalf("%q, %v", b[:n], err)
	}
	if _, err := c.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Read(b); err != nil || string(b[:n]) != "answer" {
		t.Fatalf("%q, %v", b[:n], err)
	}
	if _, err := m.Peeloff(id); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("second peel-off: %v", err)
	}
}

// Without room for another descriptor, associations stay on their sockets.
func TestNoRoomForDescriptors(t *testing.T) {
	d := daemon(t)
	m, to := d.many(t)
	l := d.listen(t, "127.0.0.1:0")
	client, waiting := d.dial(t, to.String()), d.dial(t, l.Addr().String())
	for _, c := range []*Conn{client, waiting} {
		if _, err := c.Write([]byte("queued")); err != nil {
			t.Fatal(err)
		}
	}
	id := expectState(t, m.Socket, CommUp)
	var whole syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &whole); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: whole.Max}); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 3; i++ {
		if _, err := m.Peeloff(id); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("peel-off: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, syscall.EMFILE) {
			t.Errorf("accept: %v", err)
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &whole); err != nil {
		t.Fatal(err)
	}
	branch, err := m.Peeloff(id)
	if err != nil {
		t.Fatal(err)
	}
	defer branch.Close()
	accepted, err := l.AcceptSCTP()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	for _, c := range []*Conn{branch, accepted} {
		b := make([]byte, 100)
		c.SetDeadline(time.Now().Add(limit))
		if n, err := c.Read(b); err != nil || string(b[:n]) != "queued" {
			t.Errorf("%q, %v", b[:n], err)
		}
	}
}

// RFC 6458, sections 9.1, 9.3 and 9.9
func TestMultiHoming(t *testing.T) {
	d := daemon(t)
	l := d.listen(t, "127.0.0.1/[::1]:0")
	if local := l.Addr().(*Addr); len(local.IPs) != 2 || local.Port == 0 {
		t.Fatal(local)
	}
	config := d.config()
	config.LocalAddr = &Addr{IPs: []netip.Addr{netip.IPv6Loopback(), netip.MustParseAddr("127.0.0.1")}}
	c, err := config.DialAddr(context.Background(), "sctp", l.Addr().(*Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.AcceptSCTP()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if remote := c.RemoteAddr().(*Addr); len(remote.IPs) != 2 {
		t.Errorf("peer addresses %v", remote)
	}
	if remote := s.RemoteAddr().(*Addr); len(remote.IPs) != 2 {
		t.Errorf("peer addresses %v", remote)
	}
	for _, ip := range []netip.Addr{netip.IPv6Loopback(), netip.MustParseAddr("127.0.0.1")} {
		if err := waitFor(func() error { return c.SetPrimary(0, ip) }); err != nil {
			t.Errorf("primary path to %v: %v", ip, err)
		}
		if got, err := c.Primary(0); err != nil || got != ip {
			t.Errorf("primary path to %v, not %v: %v", got, ip, err)
		}
		path, err := c.PeerAddrInfo(0, ip)
		if err != nil || path.Addr != ip || path.MTU == 0 {
			t.Errorf("%+v, %v", path, err)
		}
	}
}

func waitFor(call func() error) error {
	end := time.Now().Add(5 * time.Second)
	for {
		err := call()
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestLocalAddressesAreAddedAndRemoved(t *testing.T) {
	l := daemon(t).listen(t, "127.0.0.1:0")
	other := daemon(t).listen(t, "[::1]:0")
	if err := l.AddAddrs(netip.IPv6Loopback()); !errors.Is(err, syscall.EINVAL) && err == nil {
		t.Error("an IPv4 socket got an IPv6 address")
	}
	if err := other.AddAddrs(netip.MustParseAddr("127.0.0.1")); err != nil {
		t.Fatal(err)
	}
	if addrs, err := other.LocalAddrs(0); err != nil || len(addrs.IPs) != 2 {
		t.Fatal(addrs, err)
	}
	if err := other.RemoveAddrs(netip.IPv6Loopback()); err != nil {
		t.Fatal(err)
	}
	if addrs, err := other.LocalAddrs(0); err != nil || len(addrs.IPs) != 1 {
		t.Fatal(addrs, err)
	}
}

// RFC 6458, section 8
func TestOptions(t *testing.T) {
	c, _ := daemon(t).pair(t)
	check := func(name string, err error, ok bool) {
		t.Helper()
		if err != nil || !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	check("SetRTOInfo", c.SetRTOInfo(RTOInfo{Initial: 500, Max: 2000, Min: 200}), true)
	rto, err := c.RTOInfo(0)
	check("RTOInfo", err, rto.Initial == 500 && rto.Max == 2000 && rto.Min == 200)
	check("SetAssocParams", c.SetAssocParams(AssocParams{MaxRetrans: 4}), true)
	params, err := c.AssocParams(0)
	check("AssocParams", err, params.MaxRetrans == 4 && params.PeerDestinations == 1 && params.LocalRwnd > 0)
	check("SetNoDelay", c.SetNoDelay(true), true)
	noDelay, err := c.NoDelay()
	check("NoDelay", err, noDelay)
	check("SetMaxSeg", c.SetMaxSeg(1000), true)
	segment, err := c.MaxSeg()
	check("MaxSeg", err, segment == 1000)
	check("SetDelayedSack", c.SetDelayedSack(DelayedSack{Delay: 100, Frequency: 3}), true)
	sack, err := c.DelayedSack(0)
	check("DelayedSack", err, sack.Delay == 100 && sack.Frequency == 3)
	check("SetPeerAddrParams", c.SetPeerAddrParams(PeerAddrParams{HeartbeatInterval: 5000, Flags: HeartbeatEnable}), true)
	path, err := c.PeerAddrParams(0, netip.Addr{})
	check("PeerAddrParams", err, path.HeartbeatInterval == 5000)
	check("SetContext", c.SetContext(0, 7), true)
	check("SetMaxBurst", c.SetMaxBurst(0, 8), true)
	check("SetFragmentInterleave", c.SetFragmentInterleave(true), true)
	check("SetDisableFragments", c.SetDisableFragments(true), true)
	_, err = c.Write(pattern(20_000))
	check("message above the packet size", nil, errors.Is(err, syscall.EMSGSIZE))
	check("SetDisableFragments", c.SetDisableFragments(false), true)
	check("SetReadBuffer", c.SetReadBuffer(300_000), true)
	size, err := c.ReadBuffer()
	check("ReadBuffer", err, size == 600_000)
	check("SetWriteBuffer", c.SetWriteBuffer(300_000), true)
	size, err = c.WriteBuffer()
	check("WriteBuffer", err, size == 600_000)
	check("SetLinger", c.SetLinger(1), true)
	check("SetEncapsulationPort", waitFor(func() error { return c.SetEncapsulationPort(0, 9900) }), true)
	status, err := c.Status(0)
	check("Status", err, status.State == StateEstablished && status.OutStreams > 0 && status.Primary.MTU > 0)
	check("Subscribe", c.Subscribe(SenderDryType, DataIOType), c.HasSndRcv())
	check("Unsubscribe", c.Unsubscribe(DataIOType), true)
	check("HasSndRcv", nil, !c.HasSndRcv())
	err = c.SetOption(ProtocolSCTP, 9999, []byte{0, 0, 0, 0})
	check("unknown option", nil, errors.Is(err, syscall.ENOPROTOOPT))

	l := daemon(t).listen(t, "127.0.0.1:0")
	check("SetInitMsg", l.SetInitMsg(InitMsg{OutStreams: 20, MaxInStreams: 5}), true)
	init, err := l.InitMsg()
	check("InitMsg", err, init.OutStreams == 20 && init.MaxInStreams == 5)
	d := daemon(t).dial(t, l.Addr().String())
	negotiated, err := d.Status(0)
	check("streams", err, negotiated.OutStreams == 5 && negotiated.InStreams <= 20)
}

// RFC 6525, section 6
func TestStreamsAreAddedAndReset(t *testing.T) {
	client, server := daemon(t).pair(t)
	if err := client.Subscribe(StreamChangeType, StreamResetType); err != nil {
		t.Fatal(err)
	}
	client.SetDeadline(time.Now().Add(limit))
	if err := client.AddStreams(0, 0, 3); !errors.Is(err, syscall.ENOPROTOOPT) {
		t.Fatalf("not enabled: %v", err)
	}
	for _, socket := range []*Socket{client.Socket, server.Socket} {
		if err := socket.EnableStreamReset(0, EnableResetStreams|EnableAddStreams); err != nil {
			t.Fatal(err)
		}
	}
	before, err := client.Status(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.AddStreams(0, 0, 3); err != nil {
		t.Fatal(err)
	}
	_, _, notification := next(t, client.Socket)
	change, ok := notification.(*StreamChange)
	if !ok || change.Outbound != 3 || change.Flags != 0 {
		t.Fatalf("%#v", notification)
	}
	added := SndInfo{Stream: before.OutStreams + 2}
	if _, err := client.WriteMsg([]byte("new"), &added); err != nil {
		t.Fatal(err)
	}
	if data, info, _ := next(t, server.Socket); data != "new" || info.Stream != added.Stream {
		t.Fatalf("%q, %+v", data, info)
	}
	if err := client.ResetStreams(0, ResetOutgoing, 1); err != nil {
		t.Fatal(err)
	}
	_, _, notification = next(t, client.Socket)
	reset, ok := notification.(*StreamReset)
	if !ok || reset.Flags != ResetOutgoing || fmt.Sprint(reset.Streams) != "[1]" {
		t.Fatalf("%#v", notification)
	}
}

// RFC 6458, section 6.1: Read passes over notifications.
func TestReadDiscardsNotifications(t *testing.T) {
	client, server := daemon(t).pair(t)
	if err := server.Subscribe(ShutdownEventType, SenderDryType); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("data")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if n, err := server.Read(b); err != nil || string(b[:n]) != "data" {
		t.Fatalf("%q, %v", b[:n], err)
	}
}
