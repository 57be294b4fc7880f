"""What typed objects are made with: base type, decoding, checks that name every fault, schemas."""
