module github.com/free5gc/sctp

go 1.21

require github.com/carrick-sctp/carrick/bindings/go v0.1.0

replace github.com/carrick-sctp/carrick/bindings/go => ../
