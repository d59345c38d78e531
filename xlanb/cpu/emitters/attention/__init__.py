"""The kernel of attention: softmax(f(q k^T)) v over tiles of queries and keys."""
