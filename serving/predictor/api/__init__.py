"""Wire of the predictor: KServe V1 and V2 over HTTP, V2 over gRPC, and their description."""
