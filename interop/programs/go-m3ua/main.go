// Command go-m3ua is an ASP or a gateway of the module github.com/wmnsk/go-m3ua that sends back what it receives.
//
//	go-m3ua asp|gateway ADDRESS[/ADDRESS...]:PORT ROUTING-CONTEXT POINT-CODE PEER
//
// Point codes are numbers. An ASP connects again when its association ends. A line for each event: `active` and `lost`.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/ishidawataru/sctp"
	"github.com/wmnsk/go-m3ua"
	"github.com/wmnsk/go-m3ua/messages/params"
)

// The module writes DATA on stream 0 by itself, which RFC 4666, section 1.4.7, reserves for management.
const dataStream = 1

func number(text string) uint32 {
	value, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		log.Fatal(err)
	}
	return uint32(value)
}

// echo sends back what arrives until the ASP is no longer active. When the association ends after an ASP Down Ack, Read
// does not return, so that the state is looked at, too.
func echo(conn *m3ua.Conn) {
	fmt.Println("active")
	ended := make(chan error, 1)
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, err := conn.Read(buffer)
			if err == nil {
				_, err = conn.WriteToStream(buffer[:n], dataStream)
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	for {
		select {
		case err := <-ended:
			fmt.Println("lost:", err)
		case <-time.After(100 * time.Millisecond):
			if conn.State() == m3ua.StateAspActive {
				continue
			}
			fmt.Println("not active")
		}
		conn.Close()
		return
	}
}

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: go-m3ua asp|gateway ADDRESS[/ADDRESS...]:PORT ROUTING-CONTEXT POINT-CODE PEER")
	}
	address, err := sctp.ResolveSCTPAddr("sctp", os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	config := func() *m3ua.Config {
		config := m3ua.NewConfig(number(os.Args[4]), number(os.Args[5]), params.ServiceIndSCCP, 2, 0, 5)
		return config.EnableHeartbeat(time.Second, 5*time.Second).SetRoutingContexts(number(os.Args[3]))
	}
	background := context.Background()
	if os.Args[1] == "gateway" {
		listener, err := m3ua.Listen("m3ua", address, config())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("listening")
		for {
			conn, err := listener.Accept(background)
			if err != nil {
				fmt.Println("not accepted:", err)
				continue
			}
			go echo(conn)
		}
	}
	for {
		conn, err := m3ua.Dial(background, "m3ua", nil, address, config().SetAspIdentifier(1))
		if err != nil {
			fmt.Println("not connected:", err)
			time.Sleep(time.Second)
			continue
		}
		echo(conn)
	}
}
