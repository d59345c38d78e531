"""The attention kernel: softmax(f(q k^T)) v over tiles of queries and keys."""
