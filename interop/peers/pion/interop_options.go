package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Options of interop/README.md, as far as the stack supports them.
type testOptions struct {
	listens                 bool
	local, remote           netip.AddrPort
	overDTLS                bool
	mode, end               string
	bytes                   int
	sizes                   []int
	low, high               int
	streams, rate, hold     int
	unordered, expect, step int
	seed                    uint64
	ppid                    int
	extensions              []string
	timed, retransmissions  int
	resetAt                 int
	gaps                    bool
	linger, limit           time.Duration
}

// Error for what the stack does not support.
var errUnsupported = errors.New("not supported")

// Parses "connect ADDR PORT" or "listen PORT", and the options.
func parseTest(words []string) (*testOptions, error) {
	o := &testOptions{listens: words[0] == "listen", resetAt: -1, timed: -1, retransmissions: -1}
	positions := 3
	if o.listens {
		positions = 2
	}
	if len(words) < positions || words[positions-1] != "5000" {
		return nil, fmt.Errorf("%w: the stack has the SCTP port 5000 only", errUnsupported)
	}
	set := flag.NewFlagSet("pion", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	local := set.String("local", "0.0.0.0", "")
	localPort := set.Int("local-port", 5000, "")
	encaps, remoteEncaps := set.Int("encaps-port", 9899, ""), set.Int("remote-encaps-port", 9899, "")
	transport := set.String("transport", "udp", "")
	set.StringVar(&o.mode, "mode", "echo", "")
	set.StringVar(&o.end, "end", "wait", "")
	sizes := set.String("sizes", "1024", "")
	extensions := set.String("extensions", "", "")
	reliability := set.String("reliability", "full", "")
	operation := set.String("do", "", "")
	set.BoolVar(&o.gaps, "gaps", false, "")
	set.IntVar(&o.bytes, "bytes", 0, "")
	set.IntVar(&o.streams, "streams", 1, "")
	set.IntVar(&o.rate, "rate", 0, "")
	set.IntVar(&o.hold, "hold", 0, "")
	set.IntVar(&o.unordered, "unordered", 0, "")
	set.IntVar(&o.expect, "expect", 0, "")
	set.IntVar(&o.step, "progress", 0, "")
	set.IntVar(&o.ppid, "ppid", -1, "")
	set.Uint64Var(&o.seed, "seed", 1, "")
	linger, limit := set.Int("linger", 0, ""), set.Int("time-limit", 60, "")
	// The stack has no settings for these.
	for _, name := range []string{"rto-initial", "rto-min", "rto-max", "heartbeat", "path-max-retrans", "assoc-max-retrans", "scheduler"} {
		set.String(name, "", "")
	}
	set.Bool("nodelay", false, "")
	if err := set.Parse(words[positions:]); err != nil {
		return nil, err
	}
	o.linger, o.limit = time.Duration(*linger)*time.Second, time.Duration(*limit)*time.Second
	if *localPort != 5000 {
		return nil, fmt.Errorf("%w: the stack has the SCTP port 5000 only", errUnsupported)
	}
	switch *transport {
	case "dtls":
		o.overDTLS = true
	case "udp":
	default:
		return nil, fmt.Errorf("%w: transport %s", errUnsupported, *transport)
	}
	own, err := netip.ParseAddr(strings.Split(*local, ",")[0])
	if err != nil {
		return nil, err
	}
	o.local = netip.AddrPortFrom(own, uint16(*encaps))
	if !o.listens {
		peer, err := netip.ParseAddr(strings.Split(words[1], ",")[0])
		if err != nil {
			return nil, err
		}
		o.remote = netip.AddrPortFrom(peer, uint16(*remoteEncaps))
	}
	if err := o.parseSizes(*sizes); err != nil {
		return nil, err
	}
	if err := o.parseReliability(*reliability); err != nil {
		return nil, err
	}
	if err := o.parseExtensions(*extensions); err != nil {
		return nil, err
	}
	if *operation != "" {
		what, at, _ := strings.Cut(*operation, "@")
		if what != "reset-out" {
			return nil, fmt.Errorf("%w: the stack has no operation %s", errUnsupported, what)
		}
		o.resetAt, err = strconv.Atoi(at)
	}
	return o, err
}

func (o *testOptions) parseSizes(text string) error {
	low, high, isRange := strings.Cut(text, "-")
	if isRange {
		var first, second error
		o.low, first = strconv.Atoi(low)
		o.high, second = strconv.Atoi(high)
		return errors.Join(first, second)
	}
	for _, part := range strings.Split(text, ",") {
		size, err := strconv.Atoi(part)
		if err != nil {
			return err
		}
		o.sizes = append(o.sizes, size)
	}
	return nil
}

func (o *testOptions) parseReliability(text string) error {
	rule, value, _ := strings.Cut(text, ":")
	if rule == "full" {
		return nil
	}
	number, err := strconv.Atoi(value)
	if rule == "timed" {
		o.timed = number
	} else {
		o.retransmissions = number
	}
	return err
}

func (o *testOptions) parseExtensions(text string) error {
	if text == "" {
		return nil
	}
	o.extensions = strings.Split(text, ",")
	for _, name := range o.extensions {
		switch name {
		case "partial", "reconfiguration", "interleaving", "zero-checksum", "none":
		default:
			return fmt.Errorf("%w: the stack has no extension %s", errUnsupported, name)
		}
	}
	return nil
}

func (o *testOptions) offers(name string) bool {
	for _, offered := range o.extensions {
		if offered == name {
			return true
		}
	}
	return false
}
