module echo

go 1.22

require github.com/free5gc/sctp v1.0.1

require github.com/pkg/errors v0.9.1 // indirect
