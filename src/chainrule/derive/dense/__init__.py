"""Dense derivatives: products, Jacobians, Hessians, Taylor mode, gradients per example, and checks of all of them."""
